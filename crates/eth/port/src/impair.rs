//! A port that simulates a bad network: it loses, duplicates, reorders, delays and corrupts outgoing frames.
//!
//! The fate of each frame depends only on a seed and on the order of the calls, so a failure can be repeated. A delay
//! is a number of flushes, not a time.

use crate::{Address, Counters, Descriptors, Error, Listens, Port, Refused};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;

/// Frequencies of faults, in frames per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Frames lost.
    pub lost: u32,
    /// Frames sent twice.
    pub duplicated: u32,
    /// Frames sent after the next frame.
    pub reordered: u32,
    /// Frames delayed by some flushes.
    pub delayed: u32,
    /// Frames with one changed bit.
    pub corrupted: u32,
    /// Longest delay, in flushes.
    pub flushes: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Faults {
    /// Returns faults of all kinds with the same frequency, and delays of up to four flushes.
    pub const fn each(of_a_million: u32) -> Faults {
        Faults {
            lost: of_a_million,
            duplicated: of_a_million,
            reordered: of_a_million,
            delayed: of_a_million,
            corrupted: of_a_million,
            flushes: 4,
            seed: 0,
        }
    }
}

/// Numbers of frames with faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Happened {
    /// Frames dropped, including those for which the inner port had no room.
    pub lost: u64,
    /// Frames sent twice.
    pub duplicated: u64,
    /// Frames sent after the next frame.
    pub reordered: u64,
    /// Frames delayed by some flushes.
    pub delayed: u64,
    /// Frames with one changed bit.
    pub corrupted: u64,
}

/// Condition that releases a held frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    NextFrame,
    Flushes(u32),
}

#[derive(Debug)]
struct Held {
    frame: Vec<u8>,
    to: Address,
    until: Until,
}

/// Maximum number of held frames.
const HELD: usize = 256;

/// A port that applies [`Faults`] to its outgoing frames.
#[derive(Debug)]
pub struct Impaired<P> {
    within: P,
    faults: Faults,
    dice: ChaCha8Rng,
    frame: Vec<u8>,
    held: VecDeque<Held>,
    happened: Happened,
}

impl<P: Port> Impaired<P> {
    /// Wraps the port `within`.
    pub fn new(within: P, faults: Faults) -> Impaired<P> {
        let dice = ChaCha8Rng::seed_from_u64(faults.seed);
        let (frame, held) = (Vec::new(), VecDeque::new());
        Impaired { within, faults, dice, frame, held, happened: Happened::default() }
    }

    /// Returns the numbers of frames with faults.
    pub fn happened(&self) -> Happened {
        self.happened
    }

    /// Returns the inner port, without faults.
    pub fn within(&mut self) -> &mut P {
        &mut self.within
    }

    /// Draws a random number: returns true with a probability of `of_a_million` in a million.
    fn happens(&mut self, of_a_million: u32) -> bool {
        of_a_million > 0 && self.dice.next_u32() % 1_000_000 < of_a_million
    }

    /// Commits a frame to the inner port, or counts the frame as lost.
    fn put(&mut self, frame: &[u8], to: &Address) {
        // The MTU may have shrunk while the frame was held.
        let room = self.within.slot().and_then(|slot| slot.get_mut(..frame.len()));
        let put = room.map(|room| room.copy_from_slice(frame));
        if put.is_none() || self.within.commit(frame.len(), to).is_err() {
            self.happened.lost += 1;
        }
    }

    /// Holds the current frame. Returns false if too many frames are held.
    fn hold(&mut self, to: &Address, until: Until) -> bool {
        let has_room = self.held.len() < HELD;
        if has_room {
            let frame = core::mem::take(&mut self.frame);
            self.held.push_back(Held { frame, to: *to, until });
        }
        has_room
    }

    /// Sends the held frames that are due.
    fn release(&mut self, is_due: impl Fn(Until) -> bool) {
        for _ in 0..self.held.len() {
            let Some(held) = self.held.pop_front() else { return };
            if is_due(held.until) {
                self.put(&held.frame, &held.to);
            } else {
                self.held.push_back(held);
            }
        }
    }
}

impl<P: Port> Port for Impaired<P> {
    fn frame_max(&self) -> usize {
        self.within.frame_max()
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.within.slot()?;
        self.frame.resize(self.within.frame_max(), 0);
        Some(&mut self.frame)
    }

    fn commit(&mut self, len: usize, to: &Address) -> Result<(), Refused> {
        // Refuses frames that the inner port would refuse. Such a refusal is no fault of the network.
        if len > self.frame.len() || len > self.within.frame_max() {
            return Err(self.within.commit(usize::MAX, to).err().unwrap_or(Refused::Length));
        }
        let Faults { lost, duplicated, reordered, delayed, corrupted, flushes, .. } = self.faults;
        if self.happens(lost) {
            self.happened.lost += 1;
            return Ok(());
        }
        self.frame.truncate(len);
        if self.happens(corrupted) && len > 0 {
            self.happened.corrupted += 1;
            let bit = self.dice.next_u32() as usize % (8 * len);
            self.frame[bit / 8] ^= 1 << (bit % 8);
        }
        if self.happens(delayed) {
            let until = Until::Flushes(1 + self.dice.next_u32() % flushes.max(1));
            if self.hold(to, until) {
                self.happened.delayed += 1;
                return Ok(());
            }
        }
        let waits = self.held.iter().any(|held| held.until == Until::NextFrame);
        if self.happens(reordered) && !waits && self.hold(to, Until::NextFrame) {
            self.happened.reordered += 1;
            return Ok(());
        }
        let frame = core::mem::take(&mut self.frame);
        self.put(&frame, to);
        if self.happens(duplicated) {
            self.happened.duplicated += 1;
            self.put(&frame, to);
        }
        self.frame = frame;
        self.release(|until| until == Until::NextFrame);
        Ok(())
    }

    fn flush(&mut self) -> Result<usize, Error> {
        for held in &mut self.held {
            if let Until::Flushes(left) = &mut held.until {
                *left -= 1;
            }
        }
        self.release(|until| until == Until::Flushes(0));
        self.within.flush()
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Address, &[u8])) -> Result<usize, Error> {
        self.within.receive(take)
    }

    fn slept(&mut self) {
        self.within.slept();
    }

    fn check(&mut self) -> Result<(), Error> {
        self.within.check()
    }

    fn descriptors(&self) -> Descriptors {
        self.within.descriptors()
    }

    fn counters(&mut self) -> Counters {
        self.within.counters()
    }

    fn describe(&self) -> String {
        format!("{}, with faults of seed {}", self.within.describe(), self.faults.seed)
    }

    fn about_to_sleep(&mut self) -> bool {
        self.within.about_to_sleep()
    }

    fn listen(&mut self, discriminator: &[u8], listens: Listens) {
        self.within.listen(discriminator, listens);
    }

    fn prefix(&self) -> Option<u16> {
        self.within.prefix()
    }
}
