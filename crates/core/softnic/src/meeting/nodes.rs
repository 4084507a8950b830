//! Effects of a node's loss or return on connections and requests.

use crate::medium::Medium;
use crate::world::World;
use sovia_link::wire::{Answer, EndId};
use via::error::ConnectError;

impl<M: Medium> World<M> {
    /// Handles the permanent loss of a node: its connections are lost, and requests to it fail.
    pub fn node_lost(&mut self, node: M::Node) {
        self.end_with(node);
        for id in self.requests_to(node) {
            let Some(vi) = self.outgoing.get(&id).map(|it| it.vi) else { continue };
            let why = "cannot reach the peer's NIC";
            self.finish(vi, Err(ConnectError::NotReachable(why)));
        }
    }

    /// Handles a node without a NIC: its connections are lost, and requests to it find no waiting program. Peers
    /// continue to look for each other until their time is over, because the other NIC may still be opened.
    pub fn node_absent(&mut self, node: M::Node) {
        self.end_with(node);
        for id in self.requests_to(node) {
            if let Some(outgoing) = self.outgoing.remove(&id) {
                self.take_answer(id, &outgoing, Answer::NoMatch);
            }
        }
    }

    /// Handles the return of a node: repeats requests and answers at once, because earlier ones may be lost.
    pub fn node_found(&mut self, node: M::Node) {
        self.requests_to(node).into_iter().for_each(|id| self.send_request(id));
        self.asked_by(node).into_iter().for_each(|id| self.send_answer(id));
    }

    /// Ends the connections to a node, and the requests from it.
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
