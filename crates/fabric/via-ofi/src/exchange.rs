//! Messages between NICs about long messages, and the actions on them. `moves` describes their order.

use crate::fabric::{Fabric, Own};
use crate::message;
use crate::moves::{Again, Next};
use crate::nodes::Node;
use sovia_ofi::Part;
use sovia_softnic::moving::Expected;

impl Fabric {
    /// Tells a node that memory is ready for a message that the node has announced.
    pub(crate) fn tell_ready(&mut self, ticket: u64, message: &Expected<Node>) {
        let ([to, own], number) = (message.ends, message.number);
        self.put(message.from, |room, sender| {
            message::ready(room, sender, (to, own), number, ticket)
        });
    }

    /// Tells a node that it can fetch a message.
    pub(crate) fn tell_lent(&mut self, to: Node, ticket: u64, parts: &[Part]) {
        self.put(to, |room, sender| message::lent(room, sender, ticket, parts));
    }

    /// Tells a node that this NIC fetches nothing more of the memory lent for a ticket.
    pub(crate) fn tell_returned(&mut self, to: Node, ticket: u64) {
        self.put(to, |room, sender| message::returned(room, sender, ticket));
    }

    /// Repeats the answer to a node about memory lent to it. Returns false if none is lent for the ticket.
    pub(crate) fn lends(&mut self, to: Node, ticket: u64) -> bool {
        let Some(parts) = self.moves.lent(to, ticket).map(<[Part]>::to_vec) else { return false };
        self.tell_lent(to, ticket, &parts);
        true
    }

    /// Handles a node's message that it has lent memory for a ticket.
    pub(crate) fn offered(&mut self, from: Node, ticket: u64, parts: &[Part]) {
        match (self.moves.offered(from, ticket), self.peer(from)) {
            (None, _) => self.tell_returned(from, ticket),
            (Some(Next::Fetch), Some(peer)) => {
                self.endpoint.fetch(ticket, peer, parts, self.moves.place(ticket));
            }
            (Some(Next::Fetch), None) => self.fetched(ticket, false),
            (Some(_), _) => {}
        }
    }

    /// Handles the end of a fetch.
    pub(crate) fn fetched(&mut self, ticket: u64, is_done: bool) {
        match self.moves.fetched(ticket, is_done) {
            Next::Tell(message) => self.tell_ready(ticket, &message),
            Next::Over(id, from, is_done) => {
                self.tell_returned(from, ticket);
                self.own.push_back(Own::Moved(id, is_done));
            }
            Next::Nothing | Next::Fetch => {}
        }
    }

    /// Handles a node's message that it fetches nothing more of the memory lent for a ticket.
    pub(crate) fn returned(&mut self, from: Node, ticket: u64) {
        if let Some(id) = self.moves.returned(from, ticket) {
            self.endpoint.take_back(id.0);
            self.own.push_back(Own::Moved(id, true));
        }
    }

    /// Handles a node's message that it will not send the message expected under a ticket.
    pub(crate) fn withdrawn(&mut self, from: Node, ticket: u64) {
        match self.moves.withdrawn(from, ticket) {
            Ok(over) => self.own.extend(over.map(|id| Own::Moved(id, false))),
            Err(()) => self.strange += 1,
        }
    }

    /// Repeats the messages that have no answer yet.
    pub(crate) fn say_again(&mut self) {
        for again in self.moves.again() {
            let node = match &again {
                Again::Ready(_, message) => message.from,
                Again::Lent(node, ..) => *node,
            };
            if self.peer(node).is_none_or(|peer| self.endpoint.is_stuck(peer)) {
                continue;
            }
            match again {
                Again::Ready(ticket, message) => self.tell_ready(ticket, &message),
                Again::Lent(node, ticket, parts) => self.tell_lent(node, ticket, &parts),
            }
        }
    }
}
