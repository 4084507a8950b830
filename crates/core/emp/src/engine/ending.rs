//! Ends transfers when a peer is given up, or when the station closes.

use super::{Engine, Io};
use crate::Node;
use crate::array::Status;
use crate::peer::NONE;
use crate::wire::Why;

impl<A: Copy + PartialEq> Engine<A> {
    /// Ends all transfers with a peer. The NIC greets the peer again before it sends anything else.
    pub(super) fn give_up(&mut self, io: &mut Io<'_, A>, at: u16, status: Status) {
        self.end_all_outgoing(io, at, status);
        let active = self.active(at);
        (active.asking, active.tries) = (None, 0);
        let incoming = core::mem::take(&mut self.active(at).incoming);
        for &index in &incoming {
            // If the peer is alive, it receives the refusal when it sends more.
            if let Some(message) = self.incoming[usize::from(index)] {
                self.active(at).refused.push((message.id, Why::GivenUp));
            }
            self.end_incoming(io, index, status);
        }
        // Puts the empty vector back, to keep its memory.
        self.active(at).incoming = incoming;
        self.active(at).incoming.clear();
        self.peer_at(at).is_greeted = false;
    }

    /// Ends all transfers with a peer, as if the peer did not answer. Receives that have met no message stay.
    pub fn give_up_peer(&mut self, io: &mut Io<'_, A>, node: Node) {
        // Posts that the NIC has not taken yet count as under way.
        self.take_posts(io);
        let Some(peer) = self.peers.get(usize::from(node)) else { return };
        let at = peer.active;
        if at != NONE {
            // A process that claims the peer's address is another process. The question to this process stays open.
            let asking = self.active(at).asking.filter(|asking| asking.other.is_some());
            self.give_up(io, at, Status::PeerDead);
            self.active(at).asking = asking;
            self.settle(at);
        }
    }

    fn end_all_outgoing(&mut self, io: &Io<'_, A>, at: u16, status: Status) {
        let active = self.active(at);
        (active.parked, active.next_park) = (0, None);
        active.flights.clear();
        active.lost.clear();
        active.unsent.clear();
        let out = core::mem::take(&mut active.out);
        for &index in &out {
            self.end_outgoing(io, index, status);
        }
        self.active(at).out = out;
        self.active(at).out.clear();
    }

    /// Handles another process at a peer's address.
    pub(super) fn replaced(&mut self, io: &mut Io<'_, A>, at: u16) {
        // Nothing was ever sent to a process that was not greeted. So its messages are for the process that is there
        // now.
        if self.peer_at(at).is_greeted {
            self.end_all_outgoing(io, at, Status::PeerRestarted);
        }
        let incoming = core::mem::take(&mut self.active(at).incoming);
        for index in incoming {
            self.end_incoming(io, index, Status::PeerRestarted);
        }
        let active = self.active(at);
        (active.ack, active.tries) = (None, 0);
        active.done.clear();
        active.refused.clear();
        let node = active.peer;
        self.matching.forget_all(node);
    }

    pub(super) fn end_outgoing(&mut self, io: &Io<'_, A>, index: u16, status: Status) {
        if let Some(message) = self.outgoing[usize::from(index)].take() {
            let (node, tag, total) = (message.peer, message.message.tag, message.message.total);
            self.end(io, index, status, node, tag, total);
        }
    }

    pub(super) fn end_incoming(&mut self, io: &Io<'_, A>, index: u16, status: Status) {
        if let Some(message) = self.incoming[usize::from(index)].take() {
            let (node, tag, total) = (message.peer, message.message.tag, message.message.total);
            self.end(io, index, status, node, tag, total);
        }
    }

    /// Ends all posts. After this call the NIC does not access the program's memory.
    pub fn close(&mut self, io: &mut Io<'_, A>) {
        self.take_posts(io);
        for at in 0..self.actives.len() as u16 {
            if self.active(at).peer != crate::ANY_NODE {
                self.give_up(io, at, Status::Closed);
            }
        }
        for receive in self.matching.close() {
            self.end(io, receive.index, Status::Closed, receive.node, receive.tag.unwrap_or(0), 0);
        }
    }
}
