//! A port of the NIC: a Unix datagram socket to another NIC, which may lose, duplicate, reorder and corrupt frames as a
//! seed says.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Bytes that a frame has at most.
pub(crate) const MTU: usize = 9000;

/// What happens to frames, each in so many of a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Lost.
    pub lost: u32,
    /// Sent twice.
    pub duplicated: u32,
    /// Sent after the next one.
    pub delayed: u32,
    /// With one bit changed.
    pub corrupted: u32,
    /// What all of that follows from.
    pub seed: u64,
}

/// No NIC is bound to the other end of the way, or none is any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unheard;

/// What has become of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is on its way, or was lost as the faults say.
    Gone,
    /// The far NIC's queue is full: it is to be sent again when there is room.
    Full,
}

/// One end of the way to another NIC.
#[derive(Debug)]
pub(crate) struct Port {
    /// Where frames come to.
    hears: UnixDatagram,
    /// Connected to the far NIC's port, so that the kernel tells when there is room.
    sends: UnixDatagram,
    is_connected: bool,
    peer: PathBuf,
    faults: Faults,
    dice: ChaCha8Rng,
    /// A frame that is sent after the next one.
    held: Option<Vec<u8>>,
}

impl Port {
    /// The port at `own`, to the NIC at `peer`. What a NIC that is no more has left at `own` is replaced.
    pub(crate) fn open(own: &Path, peer: &Path, faults: Faults) -> io::Result<Port> {
        let sends = UnixDatagram::unbound()?;
        sends.set_nonblocking(true)?;
        if UnixDatagram::unbound()?.connect(own).is_err() {
            let _ = std::fs::remove_file(own);
        }
        let hears = UnixDatagram::bind(own)?;
        hears.set_nonblocking(true)?;
        let dice = ChaCha8Rng::seed_from_u64(faults.seed);
        let peer = peer.to_owned();
        Ok(Port { hears, sends, is_connected: false, peer, faults, dice, held: None })
    }

    /// The descriptors that tell when something comes, and when there is room.
    pub(crate) fn descriptors(&self) -> [RawFd; 2] {
        [self.hears.as_raw_fd(), self.sends.as_raw_fd()]
    }

    /// Whether something that happens to so many of a million frames happens to this one.
    fn happens(&mut self, of_a_million: u32) -> bool {
        of_a_million > 0 && self.dice.next_u32() % 1_000_000 < of_a_million
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// [`Unheard`] if there is no NIC at the other end of the way.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<Sent, Unheard> {
        let Faults { lost, duplicated, delayed, corrupted, .. } = self.faults;
        if self.happens(lost) {
            return Ok(Sent::Gone);
        }
        let mut frame = Cow::Borrowed(frame);
        if self.happens(corrupted) && !frame.is_empty() {
            let bit = self.dice.next_u32() as usize % (8 * frame.len());
            frame.to_mut()[bit / 8] ^= 1 << (bit % 8);
        }
        let before = self.held.take();
        if self.happens(delayed) && before.is_none() {
            self.held = Some(frame.into_owned());
            return Ok(Sent::Gone);
        }
        let sent = self.put(&frame)?;
        if sent == Sent::Gone && self.happens(duplicated) {
            self.put(&frame)?;
        }
        if let Some(before) = before {
            self.put(&before)?;
        }
        Ok(sent)
    }

    /// Hands a frame to the kernel.
    fn put(&mut self, frame: &[u8]) -> Result<Sent, Unheard> {
        if !self.is_connected {
            self.sends.connect(&self.peer).map_err(|_| Unheard)?;
            self.is_connected = true;
        }
        match self.sends.send(frame).map_err(|error| error.kind()) {
            Err(ErrorKind::WouldBlock) => Ok(Sent::Full),
            Err(
                ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::NotConnected,
            ) => {
                self.is_connected = false;
                Err(Unheard)
            }
            // A frame that the kernel does not take for another reason is lost.
            Ok(_) | Err(_) => Ok(Sent::Gone),
        }
    }

    /// Takes the next frame; its length.
    pub(crate) fn receive(&self, frame: &mut [u8]) -> Option<usize> {
        self.hears.recv(frame).ok()
    }
}
