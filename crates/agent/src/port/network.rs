//! A port to the NICs of other hosts: UDP.

use super::{PeerId, Sent, TURN};
use crate::counted::told;
use core::net::SocketAddr;
use sovia_link::wire::Checksum;
use sovia_port::impair::Impaired;
use sovia_port::udp::Udp;
use sovia_port::{Address, OpenError, Port};
use std::collections::HashMap;
use std::os::fd::RawFd;

/// A UDP socket, and the UDP addresses of the other NICs.
pub(crate) struct Network {
    port: Box<dyn Port + Send>,
    peers: Vec<Address>,
    numbers: HashMap<Address, PeerId>,
    /// Length in bytes of the longest frame on the path to each peer.
    frame_max: Vec<usize>,
    /// Received frames from addresses that no peer has.
    strangers: u64,
    /// Set if faults corrupt frames that UDP's checksum has already protected.
    has_faults: bool,
    /// Peer that sent the last received frame.
    last: Option<PeerId>,
}

impl core::fmt::Debug for Network {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Network({} peers)", self.peers.len())
    }
}

impl Network {
    /// Opens the port `own` to the NICs at `peers`.
    ///
    /// # Errors
    /// [`OpenError`]
    pub(crate) fn open(
        own: SocketAddr,
        peers: &[SocketAddr],
        faults: super::Faults,
    ) -> Result<Network, OpenError> {
        let mut port = Udp::open(own)?;
        // Without a route to the peer, use the usual length.
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

    /// Returns the length in bytes of the longest frame to each peer, as far as this host's routes tell.
    pub(crate) fn frame_max_to_each(&self) -> &[usize] {
        &self.frame_max
    }

    pub(super) fn frame_max(&self) -> usize {
        self.port.frame_max()
    }

    /// Returns the checksums. UDP's own checksum finds corrupt frames, as TCP's does.
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
            // A frame that is too long after a change of the MTU is lost.
            if len > 0 {
                let _ = self.port.commit(len, &self.peers[peer]);
            }
        }
        Sent { any, has_room: self.flush() }
    }

    /// Passes all frames to the kernel. Returns false if the kernel has no room for some: they stay in the port.
    ///
    /// If the device is down or gone, frames are lost, as on any network. The channel sends them again.
    fn flush(&mut self) -> bool {
        match self.port.flush() {
            Ok(left) => left == 0,
            Err(_) => {
                let _ = self.port.check();
                true
            }
        }
    }

    /// Passes received frames to `take`. Drops a frame from an unknown address after one look-up.
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
