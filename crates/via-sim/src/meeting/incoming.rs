//! Requests at the side that is asked.

use crate::ids::{ConnId, ViId};
use crate::meeting::{matching, told};
use crate::packet::{Answer, Meeting, Packet, Request};
use crate::stream::Timing;
use crate::world::{Timer, World};
use sovia_simnet::NodeId;
use via::error::ConnectError;

/// Requests that are remembered, so that a late duplicate of one is not taken for another.
const REMEMBERED: usize = 1 << 16;

/// A request that has come.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// The node that is asked.
    pub(crate) node: NodeId,
    /// The node that asks.
    pub(crate) from: NodeId,
    /// What is asked, until it is settled.
    pub(crate) request: Option<Request>,
    pub(crate) stand: Stand,
    /// Times that the answer has been sent.
    pub(crate) tries: u32,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// A program has it, or is about to.
    Open,
    /// The requester has given up.
    Cancelled,
    /// Answered, but not known to be settled.
    Answered(Answer),
    /// Over; whether a connection came of it.
    Settled(bool, Answer),
}

/// How long to wait before something is said for the `tries`-th time again.
pub(crate) fn pause(timing: &Timing, tries: u32) -> core::time::Duration {
    timing.first.saturating_mul(1 << tries.min(16)).min(timing.longest.max(timing.first))
}

impl World {
    fn say(&mut self, from: NodeId, to: NodeId, meeting: Meeting) {
        self.send(from, to, Packet::Meeting(meeting));
    }

    /// A request has come, or comes again.
    pub(crate) fn requested(&mut self, at: NodeId, from: NodeId, request: Request) {
        let id = request.id;
        if let Some(known) = self.incoming.get(&id) {
            let again = match known.stand {
                Stand::Open => Meeting::Pending { request: id },
                Stand::Cancelled => return,
                Stand::Answered(answer) | Stand::Settled(_, answer) => {
                    Meeting::Answer { request: id, answer }
                }
            };
            return self.say(at, from, again);
        }
        while self.incoming.len() > REMEMBERED {
            match self.incoming.first_key_value() {
                Some((&oldest, Incoming { stand: Stand::Settled(..), .. })) => {
                    self.incoming.remove(&oldest);
                }
                _ => break,
            }
        }
        let remote = request.remote.clone();
        let peer = request.peer.then(|| self.peer_for(&request)).flatten();
        let waiter = if request.peer { None } else { self.free_waiter(at, &remote) };
        let request = Some(request);
        let stand = Stand::Open;
        self.incoming.insert(id, Incoming { node: at, from, request, stand, tries: 0 });
        match (peer, waiter) {
            (Some(vi), _) => self.accept_peer(id, vi),
            (None, Some(waiter)) => {
                if let Some(waiter) = self.waiters.get_mut(&waiter) {
                    waiter.request = Some(id);
                }
                self.news = true;
                self.say(at, from, Meeting::Pending { request: id });
            }
            (None, None) => self.answer(id, Answer::NoMatch),
        }
    }

    /// The requester has given up.
    pub(crate) fn cancelled(&mut self, id: ConnId) {
        let Some(incoming) = self.incoming.get_mut(&id) else { return };
        if incoming.stand != Stand::Open {
            return;
        }
        incoming.stand = Stand::Cancelled;
        self.news = true;
        for waiter in self.waiters.values_mut().filter(|waiter| waiter.request == Some(id)) {
            waiter.request = None;
        }
    }

    /// Answers a request for good.
    pub(crate) fn answer(&mut self, id: ConnId, answer: Answer) {
        let Some(incoming) = self.incoming.get_mut(&id) else { return };
        if incoming.stand != Stand::Open {
            return;
        }
        incoming.stand = Stand::Answered(answer);
        self.answer_again(id);
    }

    /// Sends the answer, and again later if it is not settled by then.
    pub(crate) fn answer_again(&mut self, id: ConnId) {
        let timing = self.config.timing();
        let Some(incoming) = self.incoming.get_mut(&id) else { return };
        let Stand::Answered(answer) = incoming.stand else { return };
        if incoming.tries > timing.tries {
            return self.settle(id, false);
        }
        let wait = pause(&timing, incoming.tries);
        incoming.tries += 1;
        let (node, from) = (incoming.node, incoming.from);
        self.say(node, from, Meeting::Answer { request: id, answer });
        self.net.set_timer(self.net.now().after(wait), Timer::Answer(id));
    }

    /// Accepts a request with a VI that is neither connected nor about to be. The connection
    /// comes about when the requester is heard of.
    ///
    /// # Errors
    /// Where the two do not match, which the requester is told; where it has given up.
    pub(crate) fn accept(&mut self, id: ConnId, vi: ViId) -> Result<(), ConnectError> {
        let (Some(incoming), Some(core)) = (self.incoming.get(&id), self.vis.get(&vi)) else {
            return Err(ConnectError::Timeout);
        };
        let Some(request) = incoming.request.as_ref().filter(|_| incoming.stand == Stand::Open)
        else {
            return Err(ConnectError::Timeout);
        };
        if let Err(error) = matching(&core.attributes, &request.attributes) {
            let answer = match error {
                ConnectError::Reliability => Answer::Reliability,
                _ => Answer::MaxTransferSize,
            };
            self.answer(id, answer);
            return Err(error);
        }
        let attributes = told(core.attributes);
        let (node, from) = (incoming.node, incoming.from);
        let mut conn = self.new_conn(vi, node, from, id);
        conn.unsettled = Some(id);
        let conn_id = ConnId(self.fresh());
        self.conns.insert(conn_id, conn);
        if let Some(core) = self.vis.get_mut(&vi) {
            core.conn = Some(conn_id);
        }
        self.answer(id, Answer::Accepted { conn: conn_id, attributes });
        Ok(())
    }

    /// The requester has the answer, or never will.
    pub(crate) fn settle(&mut self, id: ConnId, connected: bool) {
        let Some(incoming) = self.incoming.get_mut(&id) else { return };
        let Stand::Answered(answer) = incoming.stand else { return };
        let request = incoming.request.take();
        incoming.stand = Stand::Settled(connected, answer);
        self.news = true;
        let Answer::Accepted { conn: conn_id, .. } = answer else { return };
        let Some(conn) = self.conns.get_mut(&conn_id) else { return };
        conn.unsettled = None;
        let vi = conn.vi;
        if !connected {
            self.conns.remove(&conn_id);
            let answer = Answer::Rejected;
            if let Some(incoming) = self.incoming.get_mut(&id) {
                incoming.stand = Stand::Settled(false, answer);
            }
        }
        if let Some(vi) = vi {
            self.accepted(vi, connected, request);
        }
    }
}
