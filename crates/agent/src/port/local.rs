//! A port to another NIC of this host, for tests: Unix datagrams. A seed decides which are lost, duplicated,
//! reordered and corrupted.

use super::{Sent, TURN, Unheard};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Maximum length of a frame in bytes.
pub(super) const MTU: usize = 9000;

/// Rates of the faults, in frames of a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Lost.
    pub lost: u32,
    /// Sent twice.
    pub duplicated: u32,
    /// Sent after the next frame.
    pub delayed: u32,
    /// Sent with one bit changed.
    pub corrupted: u32,
    /// Seed of the random decisions.
    pub seed: u64,
}

impl Faults {
    /// Returns the same faults for a port of a network; `None` if there are none.
    pub(super) fn of_network(&self) -> Option<sovia_port::impair::Faults> {
        let Faults { lost, duplicated, delayed, corrupted, seed } = *self;
        let faults = sovia_port::impair::Faults {
            lost,
            duplicated,
            reordered: delayed,
            corrupted,
            seed,
            ..Default::default()
        };
        (lost | duplicated | delayed | corrupted > 0).then_some(faults)
    }
}

/// One end of the connection to another NIC.
#[derive(Debug)]
pub(crate) struct Local {
    /// Receives frames.
    hears: UnixDatagram,
    /// Connected to the remote NIC's port, so that the kernel reports room there.
    sends: UnixDatagram,
    is_connected: bool,
    peer: PathBuf,
    faults: Faults,
    dice: ChaCha8Rng,
    /// A frame to be sent after the next one.
    held: Option<Vec<u8>>,
    /// A frame for which the remote NIC had no room.
    waiting: Option<Vec<u8>>,
}

impl Local {
    /// Opens the port `own` to the NIC at `peer`. Replaces the file of a NIC that no longer exists.
    pub(crate) fn open(own: &Path, peer: &Path, faults: Faults) -> io::Result<Local> {
        let sends = UnixDatagram::unbound()?;
        sends.set_nonblocking(true)?;
        if UnixDatagram::unbound()?.connect(own).is_err() {
            let _ = std::fs::remove_file(own);
        }
        let hears = UnixDatagram::bind(own)?;
        hears.set_nonblocking(true)?;
        let dice = ChaCha8Rng::seed_from_u64(faults.seed);
        let peer = peer.to_owned();
        Ok(Local {
            hears,
            sends,
            is_connected: false,
            peer,
            faults,
            dice,
            held: None,
            waiting: None,
        })
    }

    /// Returns the descriptors that report received frames and room.
    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.hears.as_raw_fd(), self.sends.as_raw_fd()]
    }

    /// Returns true with a probability of `of_a_million` in a million.
    fn happens(&mut self, of_a_million: u32) -> bool {
        of_a_million > 0 && self.dice.next_u32() % 1_000_000 < of_a_million
    }

    /// Sends frames, first a frame for which there was no room.
    ///
    /// # Errors
    /// [`Unheard`] if there is no NIC at the other end.
    pub(super) fn transmit(
        &mut self,
        next: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Result<Sent, Unheard> {
        let mut any = false;
        for _ in 0..TURN {
            let frame = match self.waiting.take() {
                Some(frame) => frame,
                None => {
                    let mut frame = vec![0; MTU];
                    let Some(len) = next(&mut frame) else { break };
                    frame.truncate(len);
                    frame
                }
            };
            if !self.send(&frame)? {
                self.waiting = Some(frame);
                return Ok(Sent { any, has_room: false });
            }
            any = true;
        }
        Ok(Sent { any, has_room: true })
    }

    /// Sends a frame, or applies a fault to it. Returns false if the remote NIC has no room.
    fn send(&mut self, frame: &[u8]) -> Result<bool, Unheard> {
        let Faults { lost, duplicated, delayed, corrupted, .. } = self.faults;
        if self.happens(lost) {
            return Ok(true);
        }
        let mut frame = Cow::Borrowed(frame);
        if self.happens(corrupted) && !frame.is_empty() {
            let bit = self.dice.next_u32() as usize % (8 * frame.len());
            frame.to_mut()[bit / 8] ^= 1 << (bit % 8);
        }
        let before = self.held.take();
        if self.happens(delayed) && before.is_none() {
            self.held = Some(frame.into_owned());
            return Ok(true);
        }
        let sent = self.put(&frame)?;
        if sent && self.happens(duplicated) {
            self.put(&frame)?;
        }
        if let Some(before) = before {
            self.put(&before)?;
        }
        Ok(sent)
    }

    /// Passes a frame to the kernel. Returns false if the remote NIC has no room.
    fn put(&mut self, frame: &[u8]) -> Result<bool, Unheard> {
        if !self.is_connected {
            self.sends.connect(&self.peer).map_err(|_| Unheard)?;
            self.is_connected = true;
        }
        match self.sends.send(frame).map_err(|error| error.kind()) {
            Err(ErrorKind::WouldBlock) => Ok(false),
            Err(
                ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::NotConnected,
            ) => {
                self.is_connected = false;
                Err(Unheard)
            }
            // A frame that the kernel refuses for another reason is lost.
            Ok(_) | Err(_) => Ok(true),
        }
    }

    /// Passes received frames to `take`. Returns false if there were none.
    pub(super) fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> bool {
        let mut frame = [0; MTU];
        let mut any = false;
        for _ in 0..TURN {
            let Ok(len) = self.hears.recv(&mut frame) else { break };
            any = true;
            take(&frame[..len]);
        }
        any
    }
}
