//! A way to the NIC of another host: UDP.

use super::{Sent, TURN};
use core::net::SocketAddr;
use sovia_port::impair::Impaired;
use sovia_port::udp::Udp;
use sovia_port::{Address, OpenError, Port};
use std::os::fd::RawFd;

/// A UDP socket, and where the other NIC has its own.
pub(crate) struct Network {
    port: Box<dyn Port + Send>,
    peer: Address,
}

impl core::fmt::Debug for Network {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Network({})", self.peer)
    }
}

impl Network {
    /// The port at `own`, to the NIC at `peer`.
    ///
    /// # Errors
    /// [`OpenError`]
    pub(crate) fn open(
        own: SocketAddr,
        peer: SocketAddr,
        faults: super::Faults,
    ) -> Result<Network, OpenError> {
        let mut port = Udp::open(own)?;
        // Where there is no route yet the usual length will do.
        if let Ok(longest) = port.frame_max_to(&peer) {
            port.set_frame_max(longest);
        }
        let port: Box<dyn Port + Send> = match faults.of_network() {
            None => Box::new(port),
            Some(faults) => Box::new(Impaired::new(port, faults)),
        };
        Ok(Network { port, peer: Address::Udp(peer) })
    }

    pub(super) fn frame_max(&self) -> usize {
        self.port.frame_max()
    }

    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.port.descriptors().frames; 2]
    }

    pub(super) fn transmit(&mut self, next: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> Sent {
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
                let _ = self.port.commit(len, &self.peer);
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

    pub(super) fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> bool {
        let peer = self.peer;
        let received = self.port.receive(&mut |from, frame| {
            if *from == peer {
                take(frame);
            }
        });
        received.is_ok_and(|count| count > 0)
    }
}
