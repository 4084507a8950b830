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

/// One end of the way to another NIC.
#[derive(Debug)]
pub(crate) struct Port {
    socket: UnixDatagram,
    peer: PathBuf,
    faults: Faults,
    dice: ChaCha8Rng,
    /// A frame that is sent after the next one.
    held: Option<Vec<u8>>,
}

impl Port {
    /// The port at `own`, to the NIC at `peer`. What a NIC that is no more has left at `own` is replaced.
    pub(crate) fn open(own: &Path, peer: &Path, faults: Faults) -> io::Result<Port> {
        if UnixDatagram::unbound()?.connect(own).is_err() {
            let _ = std::fs::remove_file(own);
        }
        let socket = UnixDatagram::bind(own)?;
        socket.set_nonblocking(true)?;
        let dice = ChaCha8Rng::seed_from_u64(faults.seed);
        Ok(Port { socket, peer: peer.to_owned(), faults, dice, held: None })
    }

    /// Whether something that happens to so many of a million frames happens to this one.
    fn happens(&mut self, of_a_million: u32) -> bool {
        of_a_million > 0 && self.dice.next_u32() % 1_000_000 < of_a_million
    }

    /// Sends a frame. One that the kernel has no room for is lost.
    ///
    /// # Errors
    /// [`Unheard`] if there is no NIC at the other end of the way.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<(), Unheard> {
        let Faults { lost, duplicated, delayed, corrupted, .. } = self.faults;
        if self.happens(lost) {
            return Ok(());
        }
        let mut frame = Cow::Borrowed(frame);
        if self.happens(corrupted) && !frame.is_empty() {
            let bit = self.dice.next_u32() as usize % (8 * frame.len());
            frame.to_mut()[bit / 8] ^= 1 << (bit % 8);
        }
        let twice = self.happens(duplicated);
        let before = self.held.take();
        if self.happens(delayed) && before.is_none() {
            self.held = Some(frame.into_owned());
            return Ok(());
        }
        let frames = [Some(&*frame), twice.then_some(&*frame), before.as_deref()];
        for frame in frames.into_iter().flatten() {
            let sent = self.socket.send_to(frame, &self.peer).map_err(|error| error.kind());
            if matches!(sent, Err(ErrorKind::ConnectionRefused | ErrorKind::NotFound)) {
                return Err(Unheard);
            }
        }
        Ok(())
    }

    /// Takes the next frame; its length.
    pub(crate) fn receive(&self, frame: &mut [u8]) -> Option<usize> {
        self.socket.recv(frame).ok()
    }
}

impl AsRawFd for Port {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
