//! A peer is given up, or the station is closed.

use super::{Engine, Io};
use crate::Node;
use crate::array::Status;
use crate::peer::NONE;
use crate::wire::Why;

impl<A: Copy + PartialEq> Engine<A> {
    /// Ends all that is under way with a peer. It is greeted again before anything is sent to it.
    pub(super) fn give_up(&mut self, io: &mut Io<'_, A>, at: u16, status: Status) {
        self.end_all_outgoing(io, at, status);
        let active = self.active(at);
        (active.asking, active.tries) = (None, 0);
        let incoming = core::mem::take(&mut self.active(at).incoming);
        for &index in &incoming {
            // If it is there all the same, it will hear of that when it sends more.
            if let Some(message) = self.incoming[usize::from(index)] {
                self.active(at).refused.push((message.id, Why::GivenUp));
            }
            self.end_incoming(io, index, status);
        }
        // Their room is used again.
        self.active(at).incoming = incoming;
        self.active(at).incoming.clear();
        self.peer_at(at).is_greeted = false;
    }

    /// Ends all that is under way with a peer, as if it did not answer. Receives that have met no message stay.
    pub fn give_up_peer(&mut self, io: &mut Io<'_, A>, node: Node) {
        // What is posted already is under way.
        self.take_posts(io);
        let Some(peer) = self.peers.get(usize::from(node)) else { return };
        let at = peer.active;
        if at != NONE {
            // One that says that it is in the peer's place is another one: whether that is so is still being asked.
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

    /// Another process is in a peer's place.
    pub(super) fn replaced(&mut self, io: &mut Io<'_, A>, at: u16) {
        // Messages to a process that was not greeted have never been sent: they are for the one that is there.
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

    /// Ends all that is posted: nothing reaches into the program's memory after that.
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
