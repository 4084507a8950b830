//! A way to the NICs of other hosts: UDP.

use super::{PeerId, Sent, TURN};
use crate::counted::told;
use core::net::SocketAddr;
use sovia_link::wire::Checksum;
use sovia_port::impair::Impaired;
use sovia_port::udp::Udp;
use sovia_port::{Address, OpenError, Port};
use std::collections::HashMap;
use std::os::fd::RawFd;

/// A UDP socket, and where the other NICs have theirs.
pub(crate) struct Network {
    port: Box<dyn Port + Send>,
    peers: Vec<Address>,
    numbers: HashMap<Address, PeerId>,
    /// Bytes of the longest frame that the way to each of them takes.
    frame_max: Vec<usize>,
    /// Frames that have come from addresses that none of them has.
    strangers: u64,
    /// Faults damage frames behind UDP's checksum.
    has_faults: bool,
    /// The peer from which a frame has come last.
    last: Option<PeerId>,
}

impl core::fmt::Debug for Network {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Network({} peers)", self.peers.len())
    }
}

impl Network {
    /// The port at `own`, to the NICs at `peers`.
    ///
    /// # Errors
    /// [`OpenError`]
    pub(crate) fn open(
        own: SocketAddr,
        peers: &[SocketAddr],
        faults: super::Faults,
    ) -> Result<Network, OpenError> {
        let mut port = Udp::open(own)?;
        // Where there is no route yet the usual length will do.
        let usual = port.frame_max();
        let longest = |peer: &SocketAddr| Udp::frame_max_to(peer).unwrap_or(usual);
        let frame_max: Vec<usize> = peers.iter().map(longest).collect();
        port.set_frame_max(frame_max.iter().copied().max().unwrap_or(usual));
        let faults = faults.of_network();
        let has_faults = faults.is_some();
        let port: Box<dyn Port + Send> = match faults {
            None => Box::new(port),
            Some(faults) => Box::new(Impaired::new(port, faults)),
        };
        let peers: Vec<Address> = peers.iter().copied().map(Address::Udp).collect();
        let numbers = peers.iter().copied().zip(0..).collect();
        let (strangers, last) = (0, None);
        Ok(Network { port, peers, numbers, frame_max, strangers, has_faults, last })
    }

    /// Bytes of the longest frame that the way to each peer takes, as far as the routes of this host say.
    pub(crate) fn frame_max_to_each(&self) -> &[usize] {
        &self.frame_max
    }

    pub(super) fn frame_max(&self) -> usize {
        self.port.frame_max()
    }

    /// UDP has a checksum of its own, which finds what is corrupt, as TCP's does.
    pub(super) fn checksums(&self) -> (Checksum, Checksum) {
        (Checksum::Link, if self.has_faults { Checksum::Crc } else { Checksum::Link })
    }

    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.port.descriptors().frames; 2]
    }

    pub(super) fn transmit(
        &mut self,
        peer: PeerId,
        next: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Sent {
        let mut any = false;
        for _ in 0..TURN {
            if self.port.slot().is_none() {
                self.flush();
            }
            let Some(room) = self.port.slot() else { break };
            let Some(len) = next(room) else { break };
            any = true;
            // One that is too long, since the MTU has changed, is lost.
            if len > 0 {
                let _ = self.port.commit(len, &self.peers[peer]);
            }
        }
        Sent { any, has_room: self.flush() }
    }

    /// Hands all frames to the kernel; false if it has no room for some, which stay. A device that is down or gone loses
    /// frames, as any network may: they are sent again.
    fn flush(&mut self) -> bool {
        match self.port.flush() {
            Ok(left) => left == 0,
            Err(_) => {
                let _ = self.port.check();
                true
            }
        }
    }

    /// A frame from an address that no peer has is dropped here, for the price of a look into a table.
    pub(super) fn receive(&mut self, take: &mut dyn FnMut(PeerId, &[u8], usize)) -> bool {
        let (numbers, peers) = (&self.numbers, &self.peers);
        let (strangers, last) = (&mut self.strangers, &mut self.last);
        let received = self.port.receive_joined(&mut |from, bytes, segment| {
            if last.is_none_or(|last| peers[last] != *from) {
                *last = numbers.get(from).copied();
            }
            match *last {
                Some(peer) => take(peer, bytes, segment),
                None => *strangers += bytes.len().div_ceil(segment.max(1)) as u64,
            }
        });
        received.is_ok_and(|count| count > 0)
    }

    pub(super) fn told(&mut self) -> String {
        told(&self.port.counters(), self.strangers)
    }
}
