//! Decides whether a packet for a peer is sent, queued or dropped. Does no I/O: the caller carries out each [`Step`].

use std::collections::VecDeque;

/// Maximum number of packets that wait for one peer: for a connection, or for receives at the other end.
pub const WAITING_MAX: usize = 512;

/// The sender's state for a peer. `L` is a connection that can send packets.
#[derive(Debug)]
pub(crate) struct Peer<L> {
    link: Option<L>,
    /// Set while a thread requests a connection.
    is_connecting: bool,
    waiting: VecDeque<Vec<u8>>,
    /// Unused buffers for packets that will wait.
    spare: Vec<Vec<u8>>,
}

/// The caller's next step for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<L> {
    /// Send the packet on this connection now.
    Send(L),
    /// Do nothing: the packet waits.
    Wait,
    /// Request a connection: the packet waits for it.
    Connect,
    /// Drop the packet: too many packets wait.
    Drop,
}

impl<L> Default for Peer<L> {
    fn default() -> Peer<L> {
        Peer { link: None, is_connecting: false, waiting: VecDeque::new(), spare: Vec::new() }
    }
}

impl<L: Clone + PartialEq> Peer<L> {
    /// Returns the next step for a packet. Queues the packet if it must wait.
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

    /// Queues a packet that cannot be sent now. Returns [`Step::Drop`] if the queue is full.
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

    /// Returns the current connection and the oldest packet that waits for it.
    pub(crate) fn next(&self) -> Option<(L, &[u8])> {
        Some((self.link.clone()?, self.waiting.front()?))
    }

    /// Removes the oldest waiting packet after the caller has sent or dropped it.
    pub(crate) fn done_with_next(&mut self) {
        if let Some(buffer) = self.waiting.pop_front() {
            self.spare.push(buffer);
        }
    }

    /// Stores the requested connection.
    pub(crate) fn connected(&mut self, link: L) {
        self.is_connecting = false;
        self.link = Some(link);
    }

    /// Records that the requested connection failed. Returns the number of packets dropped.
    pub(crate) fn not_connected(&mut self) -> usize {
        self.is_connecting = false;
        self.drop_all()
    }

    /// Records that `link` has broken. Returns the number of packets dropped, or `None` if `link` is not the current
    /// connection.
    pub(crate) fn broken(&mut self, link: &L) -> Option<usize> {
        if self.link.as_ref() != Some(link) {
            return None;
        }
        self.link = None;
        Some(self.drop_all())
    }

    /// Drops all waiting packets and frees the spare buffers. Returns the number of packets dropped.
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
        // The third packet waits behind the second, so the packets stay in order.
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
