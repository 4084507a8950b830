//! How VIs find each other: requests and answers, and peers.
//!
//! A request is repeated until the far NIC says something; an answer, until the requester has
//! settled it. Both are named by the requester's end of the connection to be. Peers are the same
//! thing with the roles dealt out by their addresses: the smaller requests, the larger accepts by
//! itself, and pokes the smaller when it is there, which may have come too early.

mod attempt;
mod incoming;
mod nodes;
mod outgoing;
mod peers;
mod waiters;

use crate::medium::Medium;
use crate::world::World;
use sovia_link::wire::Meeting;
use via::{Reliability, ViAttributes};

/// Attributes as the far side is told them: a tag means nothing there.
pub(crate) fn told(attributes: ViAttributes) -> ViAttributes {
    debug_assert!(Reliability::all().contains(attributes.reliability));
    ViAttributes { ptag: None, ..attributes }
}

impl<M: Medium> World<M> {
    /// Whether a node speaks of itself, where it speaks of a peer's address: peers find each other by nothing else.
    fn is_own_address(&self, from: M::Node, meeting: &Meeting) -> bool {
        let address = match meeting {
            Meeting::Request(request) if request.peer => &request.local,
            Meeting::Poke { local, .. } => local,
            Meeting::Poked { remote, .. } => remote,
            _ => return true,
        };
        self.net.find(&address.host) == Some(from)
    }

    /// A message about a connection that is to be has arrived.
    pub(crate) fn meeting(&mut self, at: M::Node, from: M::Node, meeting: Meeting) {
        if !self.is_own_address(from, &meeting) {
            self.counters.strangers += 1;
            return;
        }
        match meeting {
            Meeting::Request(request) => self.requested(at, from, *request),
            Meeting::Pending { request } => self.request_pending(from, request),
            Meeting::Answer { request, answer } => self.answered(at, from, request, answer),
            Meeting::Settled { request, connected } => self.settled(from, request, connected),
            Meeting::Cancel { request } => self.cancelled(from, request),
            Meeting::Poke { local, remote } => self.poked(at, from, local, remote),
            Meeting::Poked { local, remote } => self.poke_noticed(&local, &remote),
        }
    }
}
