//! A port that does to outgoing frames what a bad network does: it loses, doubles, reorders, delays and damages them.
//!
//! What happens to each frame follows from a seed and from the order of the calls alone, so that a failure can be
//! repeated. Time is no part of it: a delay is a number of flushes.

use crate::{Address, Counters, Descriptors, Error, Listens, Port, Refused};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;

/// What happens to frames, each in so many of a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Lost.
    pub lost: u32,
    /// Sent twice.
    pub duplicated: u32,
    /// Sent after the next one.
    pub reordered: u32,
    /// Held back for some flushes.
    pub delayed: u32,
    /// With one bit changed.
    pub corrupted: u32,
    /// Flushes that a delayed frame is held back for at most.
    pub flushes: u32,
    /// What all of that follows from.
    pub seed: u64,
}

impl Faults {
    /// Each fault to so many frames of a million, and delays of up to four flushes.
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

/// Frames to which something has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Happened {
    /// Lost, also for want of room in the port within.
    pub lost: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back until after the next one.
    pub reordered: u64,
    /// Held back for some flushes.
    pub delayed: u64,
    /// With one bit changed.
    pub corrupted: u64,
}

/// Until when a frame is held back.
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

/// Frames that are held back at most.
const HELD: usize = 256;

/// A port whose outgoing frames pass through [`Faults`].
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
    /// The port `within`, on a bad network.
    pub fn new(within: P, faults: Faults) -> Impaired<P> {
        let dice = ChaCha8Rng::seed_from_u64(faults.seed);
        let (frame, held) = (Vec::new(), VecDeque::new());
        Impaired { within, faults, dice, frame, held, happened: Happened::default() }
    }

    /// What has happened to frames.
    pub fn happened(&self) -> Happened {
        self.happened
    }

    /// The port without faults.
    pub fn within(&mut self) -> &mut P {
        &mut self.within
    }

    /// Whether something that happens to so many of a million frames happens to this one.
    fn happens(&mut self, of_a_million: u32) -> bool {
        of_a_million > 0 && self.dice.next_u32() % 1_000_000 < of_a_million
    }

    /// Commits a frame to the port within, or counts it as lost.
    fn put(&mut self, frame: &[u8], to: &Address) {
        // The MTU may have become smaller while the frame was held back.
        let room = self.within.slot().and_then(|slot| slot.get_mut(..frame.len()));
        let put = room.map(|room| room.copy_from_slice(frame));
        if put.is_none() || self.within.commit(frame.len(), to).is_err() {
            self.happened.lost += 1;
        }
    }

    /// Holds a frame back. False if too many are.
    fn hold(&mut self, to: &Address, until: Until) -> bool {
        let has_room = self.held.len() < HELD;
        if has_room {
            let frame = core::mem::take(&mut self.frame);
            self.held.push_back(Held { frame, to: *to, until });
        }
        has_room
    }

    /// Sends the frames that wait no longer.
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
        // What the port within would refuse, it refuses: that is no fault of the network.
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
