//! What becomes of packets for a peer, by the state of the way to it. Without I/O: the caller does what is said.

use std::collections::VecDeque;

/// Packets for a peer that wait at most: for a connection, or for receives at the other end.
pub const WAITING_MAX: usize = 512;

/// A peer, as the end that sends has it. `L` is a connection, with which packets can be sent.
#[derive(Debug)]
pub(crate) struct Peer<L> {
    link: Option<L>,
    /// A thread requests a connection.
    is_connecting: bool,
    waiting: VecDeque<Vec<u8>>,
    /// Buffers for packets that will wait.
    spare: Vec<Vec<u8>>,
}

/// What the caller is to do with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<L> {
    /// Send it by this connection now.
    Send(L),
    /// Nothing: it waits.
    Wait,
    /// Request a connection: it waits for that.
    Connect,
    /// Drop it: too many wait.
    Drop,
}

impl<L> Default for Peer<L> {
    fn default() -> Peer<L> {
        Peer { link: None, is_connecting: false, waiting: VecDeque::new(), spare: Vec::new() }
    }
}

impl<L: Clone + PartialEq> Peer<L> {
    /// There is a packet for the peer.
    pub(crate) fn packet(&mut self, packet: &[u8]) -> Step<L> {
        match &self.link {
            Some(link) if self.waiting.is_empty() => return Step::Send(link.clone()),
            Some(_) => return self.wait(packet),
            None => {}
        }
        let begins = !core::mem::replace(&mut self.is_connecting, true);
        match self.wait(packet) {
            Step::Wait if begins => Step::Connect,
            step => step,
        }
    }

    /// The packet cannot be sent now: it waits, or is to be dropped.
    pub(crate) fn wait(&mut self, packet: &[u8]) -> Step<L> {
        if self.waiting.len() == WAITING_MAX {
            return Step::Drop;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        self.waiting.push_back(buffer);
        Step::Wait
    }

    /// The oldest packet that waits for the connection that there is, and that connection.
    pub(crate) fn next(&self) -> Option<(L, &[u8])> {
        Some((self.link.clone()?, self.waiting.front()?))
    }

    /// The oldest packet that waits needs to wait no more.
    pub(crate) fn done_with_next(&mut self) {
        if let Some(buffer) = self.waiting.pop_front() {
            self.spare.push(buffer);
        }
    }

    /// The connection that was requested has come about.
    pub(crate) fn connected(&mut self, link: L) {
        self.is_connecting = false;
        self.link = Some(link);
    }

    /// The connection that was requested has not; how many packets are dropped with it.
    pub(crate) fn not_connected(&mut self) -> usize {
        self.is_connecting = false;
        self.drop_all()
    }

    /// A connection has broken; how many packets are dropped with it. `None` if it is not the one that there is.
    pub(crate) fn broken(&mut self, link: &L) -> Option<usize> {
        if self.link.as_ref() != Some(link) {
            return None;
        }
        self.link = None;
        Some(self.drop_all())
    }

    /// Memory of a peer that is gone is given back.
    fn drop_all(&mut self) -> usize {
        self.spare = Vec::new();
        core::mem::take(&mut self.waiting).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_packet_requests_a_connection_once() {
        let mut peer = Peer::default();
        assert_eq!(peer.packet(b"one"), Step::Connect);
        assert_eq!(peer.packet(b"two"), Step::Wait);
        assert_eq!(peer.next(), None, "there is no connection");
        peer.connected(7);
        assert_eq!(peer.next(), Some((7, &b"one"[..])));
        // In order: the third waits behind the second.
        assert_eq!(peer.packet(b"three"), Step::Wait);
        for packet in [&b"one"[..], b"two", b"three"] {
            assert_eq!(peer.next(), Some((7, packet)));
            peer.done_with_next();
        }
        assert_eq!(peer.next(), None);
        assert_eq!(peer.packet(b"four"), Step::Send(7));
    }

    #[test]
    fn peer_that_cannot_be_reached_is_asked_again_by_the_next_packet() {
        let mut peer = Peer::<u32>::default();
        assert_eq!(peer.packet(b"one"), Step::Connect);
        assert_eq!(peer.packet(b"two"), Step::Wait);
        assert_eq!(peer.not_connected(), 2);
        assert_eq!(peer.packet(b"three"), Step::Connect);
    }

    #[test]
    fn peer_that_is_gone_is_forgotten() {
        let mut peer = Peer::default();
        peer.packet(b"one");
        peer.connected(7);
        assert_eq!(peer.broken(&6), None, "an older connection");
        assert_eq!(peer.broken(&7), Some(1));
        assert_eq!(peer.broken(&7), None);
        assert_eq!(peer.packet(b"two"), Step::Connect);
    }

    #[test]
    fn packets_that_wait_are_bounded() {
        let mut peer = Peer::default();
        assert_eq!(peer.packet(b"first"), Step::Connect);
        for _ in 1..WAITING_MAX {
            assert_eq!(peer.packet(b"more"), Step::Wait);
        }
        assert_eq!(peer.packet(b"too many"), Step::Drop);
        peer.connected(7);
        assert_eq!(peer.next(), Some((7, &b"first"[..])));
        assert_eq!(peer.packet(b"too many"), Step::Drop);
        peer.done_with_next();
        assert_eq!(peer.packet(b"again"), Step::Wait);
    }
}
