//! What a network finds out about a node, and what that means for all that is under way with it.

use crate::medium::Medium;
use crate::world::World;
use sovia_link::wire::{Answer, EndId};
use via::error::ConnectError;

impl<M: Medium> World<M> {
    /// A node is gone for good, and never sends or takes anything again: its connections are lost, and requests to it are over.
    pub fn node_lost(&mut self, node: M::Node) {
        self.end_with(node);
        for id in self.requests_to(node) {
            let Some(vi) = self.outgoing.get(&id).map(|it| it.vi) else { continue };
            let why = "cannot reach the peer's NIC";
            self.finish(vi, Err(ConnectError::NotReachable(why)));
        }
    }

    /// No NIC is at a node's address at present: connections are lost, and requests find no program that waits. Peers look for each other
    /// until their time is over: the other one may come yet.
    pub fn node_absent(&mut self, node: M::Node) {
        self.end_with(node);
        for id in self.requests_to(node) {
            if let Some(outgoing) = self.outgoing.remove(&id) {
                self.take_answer(id, &outgoing, Answer::NoMatch);
            }
        }
    }

    /// A node is there, and what was sent to it may be lost: says once more what would be said again later only.
    pub fn node_found(&mut self, node: M::Node) {
        self.requests_to(node).into_iter().for_each(|id| self.send_request(id));
        self.asked_by(node).into_iter().for_each(|id| self.send_answer(id));
    }

    /// Ends the connections to a node, and what it has asked for.
    fn end_with(&mut self, node: M::Node) {
        let lost = self.conns.iter_named().filter(|(_, it)| it.peer_node == node);
        let lost: Vec<_> = lost.map(|(id, _)| id).collect();
        for id in self.asked_by(node) {
            self.cancelled(node, id);
            self.settle(id, false);
        }
        lost.into_iter().for_each(|id| self.hopeless(id));
    }

    fn asked_by(&self, node: M::Node) -> Vec<EndId> {
        let asked = self.incoming.iter().filter(|(_, it)| it.from == node);
        asked.map(|(id, _)| *id).collect()
    }

    fn requests_to(&self, node: M::Node) -> Vec<EndId> {
        let asking = self.outgoing.iter_named().filter(|(_, it)| it.to == node);
        asking.map(|(id, _)| id).collect()
    }
}
