//! Ports for a NIC's frames: Unix datagrams to another NIC of this host, or UDP to NICs of other hosts.

mod local;
mod network;

pub use local::Faults;
pub(crate) use local::Local;
pub(crate) use network::Network;
use sovia_link::wire::Checksum;
use std::os::fd::RawFd;

/// Number of a peer. A port within this host has only peer 0.
type PeerId = usize;

/// Error: no NIC is bound to the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unheard;

/// Result of sending frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// True if a frame was sent.
    pub(crate) any: bool,
    /// True if there is room for more.
    pub(crate) has_room: bool,
}

/// Maximum number of frames sent in one turn.
const TURN: usize = 256;

/// A port to other NICs.
#[derive(Debug)]
pub(crate) enum Port {
    /// Within this host.
    Local(Box<Local>),
    /// To other hosts.
    Network(Box<Network>),
}

impl Port {
    /// Returns the length of the longest frame, in bytes.
    pub(crate) fn frame_max(&self) -> usize {
        match self {
            Port::Local(_) => local::MTU,
            Port::Network(port) => port.frame_max(),
        }
    }

    /// Returns the checksum by which corrupt incoming frames are found, and that of outgoing frames.
    pub(crate) fn checksums(&self) -> (Checksum, Checksum) {
        match self {
            Port::Local(_) => (Checksum::Crc, Checksum::Crc),
            Port::Network(port) => port.checksums(),
        }
    }

    /// Returns the descriptors that report received frames and room.
    pub(crate) fn descriptors(&self) -> [RawFd; 2] {
        match self {
            Port::Local(port) => port.descriptors(),
            Port::Network(port) => port.descriptors(),
        }
    }

    /// Sends frames to a peer, up to a limit for each turn. `next` writes a frame into the given buffer and returns
    /// its length; `None` ends the call.
    ///
    /// # Errors
    /// [`Unheard`] if there is no NIC at the other end, as far as the port knows.
    pub(crate) fn transmit(
        &mut self,
        peer: PeerId,
        next: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Result<Sent, Unheard> {
        match self {
            Port::Local(port) => port.transmit(next),
            Port::Network(port) => Ok(port.transmit(peer, next)),
        }
    }

    /// Returns a text with the frame counters for the owner; `None` within a host, which is only for tests.
    pub(crate) fn told(&mut self) -> Option<String> {
        match self {
            Port::Local(_) => None,
            Port::Network(port) => Some(port.told()),
        }
    }

    /// Passes received frames to `take`, up to a limit for each turn. Returns false if there were none.
    ///
    /// The network may join several frames. All have the given length, except the last, which may be shorter.
    pub(crate) fn receive(&mut self, take: &mut dyn FnMut(PeerId, &[u8], usize)) -> bool {
        match self {
            Port::Local(port) => port.receive(&mut |frame| take(0, frame, frame.len())),
            Port::Network(port) => port.receive(take),
        }
    }
}
