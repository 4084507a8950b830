//! Where the frames of a NIC go: to another NIC of this host, by Unix datagrams, or to those of other hosts, by UDP.

mod local;
mod network;

pub use local::Faults;
pub(crate) use local::Local;
pub(crate) use network::Network;
use sovia_link::wire::Checksum;
use std::os::fd::RawFd;

/// A peer by its number; a port within this host has one, the first.
type PeerId = usize;

/// No NIC is bound to the other end of the way, or none is any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unheard;

/// What has become of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// There were some.
    pub(crate) any: bool,
    /// There is room for more.
    pub(crate) has_room: bool,
}

/// Frames that are sent before something else has its turn.
const TURN: usize = 256;

/// One end of the way to another NIC.
#[derive(Debug)]
pub(crate) enum Port {
    /// Within this host.
    Local(Box<Local>),
    /// To other hosts.
    Network(Box<Network>),
}

impl Port {
    /// Bytes of the longest frame.
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

    /// The descriptors that tell when something comes, and when there is room.
    pub(crate) fn descriptors(&self) -> [RawFd; 2] {
        match self {
            Port::Local(port) => port.descriptors(),
            Port::Network(port) => port.descriptors(),
        }
    }

    /// Sends a peer the frames that `next` writes to the room that it is given, until it gives no length, there is no room, or
    /// others have their turn.
    ///
    /// # Errors
    /// [`Unheard`] if there is no NIC at the other end of the way, as far as is known.
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

    /// What has become of frames, for the owner; nothing of those within a host, where tests alone are.
    pub(crate) fn told(&mut self) -> Option<String> {
        match self {
            Port::Local(_) => None,
            Port::Network(port) => Some(port.told()),
        }
    }

    /// Hands frames that have come from peers to `take`, up to a turn; false if nothing has come.
    /// Frames that the network has joined come together, each of the length that is told but for the last one, which may be shorter.
    pub(crate) fn receive(&mut self, take: &mut dyn FnMut(PeerId, &[u8], usize)) -> bool {
        match self {
            Port::Local(port) => port.receive(&mut |frame| take(0, frame, frame.len())),
            Port::Network(port) => port.receive(take),
        }
    }
}
