//! The rendezvous of VIs: requests and answers, and peers.
//!
//! The requester repeats a request until the acceptor's NIC replies. The acceptor repeats an answer until the requester
//! confirms it. The name of the requester's end of the future connection identifies both. Peers use the same frames,
//! and their addresses give them their roles. The peer with the smaller address sends the request. The peer with the
//! larger address accepts without a call of its program. The same peer pokes the other peer when it begins to wait,
//! because an earlier request may have come too early.

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

/// Returns attributes to send to the peer, without the protection tag, which means nothing there.
pub(crate) fn told(attributes: ViAttributes) -> ViAttributes {
    debug_assert!(Reliability::all().contains(attributes.reliability));
    ViAttributes { ptag: None, ..attributes }
}

impl<M: Medium> World<M> {
    /// Returns true unless a node claims another node's address in a frame between peers. Peers identify each other
    /// only by address.
    fn is_own_address(&self, from: M::Node, meeting: &Meeting) -> bool {
        let address = match meeting {
            Meeting::Request(request) if request.peer => &request.local,
            Meeting::Poke { local, .. } => local,
            Meeting::Poked { remote, .. } => remote,
            _ => return true,
        };
        self.net.find(&address.host) == Some(from)
    }

    /// Processes a frame of the rendezvous.
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
