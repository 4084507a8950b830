//! Requests at the requesting side.

use crate::medium::{Medium, Purpose, Timer};
use crate::world::{Outgoing, Role, World};
use sovia_link::wire::{Answer, Closing, EndId, Meeting, Word};
use via::error::ConnectError;

impl<M: Medium> World<M> {
    /// Sends a request, and repeats it later if there is no reply.
    pub(crate) fn request_again(&mut self, id: EndId) {
        let timing = self.config.timing;
        let Some(outgoing) = self.outgoing.get_mut(&id) else { return };
        if outgoing.pending {
            return;
        }
        let vi = outgoing.vi;
        if self.config.is_enough(outgoing.tries) {
            let why = "the peer's NIC does not answer";
            return self.finish(vi, Err(ConnectError::NotReachable(why)));
        }
        let wait = timing.pause(outgoing.tries);
        outgoing.tries += 1;
        self.send_request(id);
        self.net.set_timer(self.net.now().after(wait), Timer(Purpose::Request(id)));
    }

    /// Sends a request once.
    pub(crate) fn send_request(&mut self, id: EndId) {
        let Some(outgoing) = self.outgoing.get(&id) else { return };
        let (node, to) = (outgoing.node, outgoing.to);
        let packet = Word::Meeting(Meeting::Request(Box::new(outgoing.request.clone())));
        self.send(node, to, packet);
    }

    /// Notes that a program has the request and will answer.
    pub(crate) fn request_pending(&mut self, from: M::Node, id: EndId) {
        let Some(outgoing) = self.outgoing.get_mut(&id).filter(|asked| asked.to == from) else {
            self.counters.strangers += 1;
            return;
        };
        outgoing.pending = true;
        let attempt = self.vis.get_mut(&outgoing.vi).and_then(|vi| vi.attempt.as_mut());
        if let Some(attempt) = attempt.filter(|attempt| attempt.request == Some(id)) {
            let taken = attempt.asked.taken();
            debug_assert_eq!(taken, Ok(()));
        }
    }

    /// Processes an answer to a request, which may be a duplicate.
    pub(crate) fn answered(&mut self, at: M::Node, from: M::Node, id: EndId, answer: Answer) {
        let accepted = matches!(answer, Answer::Accepted { .. });
        if self.outgoing.get(&id).is_some_and(|asked| asked.to != from) {
            self.counters.strangers += 1;
            return;
        }
        if let Some(outgoing) = self.outgoing.remove(&id) {
            self.take_answer(id, &outgoing, answer);
        }
        if !accepted
            && let Some(conn) = self.conns.get(&id)
            && conn.peer_node == from
            && conn.unsettled.is_none()
        {
            // The acceptor has taken back its acceptance.
            let vi = conn.vi;
            self.conns.remove(&id);
            if let Some(vi) = vi {
                self.closed_by_peer(vi, Closing::Disconnected);
            }
        }
        let conn = self.conns.get(&id);
        let connected = accepted && conn.is_some_and(|conn| conn.peer_node == from);
        let settled = Meeting::Settled { request: id, connected };
        self.send(at, from, Word::Meeting(settled));
    }

    pub(crate) fn take_answer(&mut self, id: EndId, outgoing: &Outgoing<M::Node>, answer: Answer) {
        let Outgoing { vi, node, to, .. } = *outgoing;
        let error = match answer {
            Answer::Accepted { conn: peer, attributes } => {
                if let Some(core) = self.vis.get(&vi) {
                    let conn = self.new_conn(id, (vi, core.nic.clone()), node, to, peer);
                    self.conns.insert(id, conn);
                }
                if let Some(vi) = self.vis.get_mut(&vi) {
                    vi.conn = Some(id);
                }
                return self.finish(vi, Ok(attributes));
            }
            Answer::NoMatch => {
                let core = self.vis.get_mut(&vi);
                let attempt = core.and_then(|vi| vi.attempt.as_mut());
                if let Some(attempt) = attempt.filter(|attempt| attempt.role == Role::Asking) {
                    // The peer does not wait yet. The peer pokes this end when it begins to wait, or has done so
                    // already.
                    attempt.request = None;
                    if attempt.again {
                        self.request(vi);
                    }
                    return;
                }
                ConnectError::NoMatch
            }
            Answer::Rejected => ConnectError::Rejected,
            Answer::Reliability => ConnectError::Reliability,
            Answer::MaxTransferSize => ConnectError::MaxTransferSize,
        };
        self.finish(vi, Err(error));
    }
}
