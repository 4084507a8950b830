//! Requests at the accepting side.

use crate::ids::ViId;
use crate::medium::{Medium, Purpose, Timer};
use crate::meeting::told;
use crate::world::{Incoming, World};
use sovia_link::wire::{Answer, EndId, Meeting, Request, Word};
use via::connection::{Acceptor, Step};
use via::error::ConnectError;

/// Largest number of remembered requests. The memory keeps a late duplicate from counting as a new request.
const REMEMBERED: usize = 1 << 16;

/// Returns the answer that gives a reason for a refusal.
fn refusal(why: &ConnectError) -> Answer {
    match why {
        ConnectError::Reliability => Answer::Reliability,
        ConnectError::MaxTransferSize => Answer::MaxTransferSize,
        _ => Answer::Rejected,
    }
}

impl<M: Medium> World<M> {
    fn say(&mut self, from: M::Node, to: M::Node, meeting: Meeting) {
        self.send(from, to, Word::Meeting(meeting));
    }

    /// Processes a request, which may be a duplicate.
    pub(crate) fn requested(&mut self, at: M::Node, from: M::Node, request: Request) {
        let id = request.id;
        if let Some(known) = self.incoming.get(&id) {
            if known.from != from {
                self.counters.strangers += 1;
                return;
            }
            let again = match known.answer {
                Some(answer) => Meeting::Answer { request: id, answer },
                None if known.is_open() => Meeting::Pending { request: id },
                None => return,
            };
            return self.say(at, from, again);
        }
        if self.asked.len() >= REMEMBERED && !self.forget() {
            // The requester will repeat the request.
            return;
        }
        self.asked.push_back(id);
        let remote = request.remote.clone();
        let is_peers = request.peer;
        let peer = is_peers.then(|| self.peer_for(&request)).flatten();
        let waiter = if is_peers { None } else { self.free_waiter(at, &remote) };
        let incoming = Incoming {
            node: at,
            from,
            request: Some(request),
            acceptor: Acceptor::new(),
            answer: None,
            settled: None,
            told: false,
            tries: 0,
        };
        self.incoming.insert(id, incoming);
        match (peer, waiter) {
            (Some(vi), _) => self.accept_peer(id, vi),
            (None, Some(waiter)) => {
                let step = self.incoming.get_mut(&id).map(|i| i.acceptor.step(Step::Take));
                debug_assert_eq!(step, Some(Ok(())));
                if let Some(waiter) = self.waiters.get_mut(&waiter) {
                    waiter.request = Some(id);
                }
                self.news = true;
                self.requests = true;
                self.say(at, from, Meeting::Pending { request: id });
            }
            (None, None) => {
                let step = self.incoming.get_mut(&id).map(|i| i.acceptor.step(Step::Miss));
                debug_assert_eq!(step, Some(Ok(())));
                self.answer(id, Answer::NoMatch);
            }
        }
    }

    /// Forgets the oldest request that needs no more work. Returns false if all need work. Checks a limited number of
    /// requests.
    fn forget(&mut self) -> bool {
        for _ in 0..64 {
            let Some(oldest) = self.asked.pop_front() else { return true };
            match self.incoming.get(&oldest) {
                Some(request) if !request.is_over() => self.asked.push_back(oldest),
                _ => {
                    self.incoming.remove(&oldest);
                    return true;
                }
            }
        }
        false
    }

    /// Processes the requester's cancellation.
    pub(crate) fn cancelled(&mut self, from: M::Node, id: EndId) {
        let asked = self.incoming.get_mut(&id).filter(|i| i.is_open() && i.from == from);
        let Some(incoming) = asked else { return };
        if incoming.acceptor.step(Step::Withdraw).is_err() {
            return;
        }
        self.news = true;
        for waiter in self.waiters.values_mut().filter(|waiter| waiter.request == Some(id)) {
            waiter.request = None;
        }
    }

    /// Refuses a request, if it still waits for an answer.
    pub(crate) fn turn_away(&mut self, id: EndId) {
        let Some(incoming) = self.incoming.get_mut(&id).filter(|i| i.is_open()) else { return };
        if let Some(why) = incoming.acceptor.refuse() {
            self.answer(id, refusal(&why));
        }
    }

    /// Sets the final answer to a request, and sends it.
    fn answer(&mut self, id: EndId, answer: Answer) {
        if let Some(incoming) = self.incoming.get_mut(&id) {
            incoming.answer = Some(answer);
            self.answer_again(id);
        }
    }

    /// Sends the answer, and repeats it later if the requester has not confirmed it.
    pub(crate) fn answer_again(&mut self, id: EndId) {
        let timing = self.config.timing;
        let Some(incoming) = self.incoming.get_mut(&id) else { return };
        let (Some(answer), false) = (incoming.answer, incoming.told) else { return };
        if self.config.is_enough(incoming.tries) {
            return self.settle(id, false);
        }
        let wait = timing.pause(incoming.tries);
        incoming.tries += 1;
        let (node, from) = (incoming.node, incoming.from);
        self.say(node, from, Meeting::Answer { request: id, answer });
        self.net.set_timer(self.net.now().after(wait), Timer(Purpose::Answer(id)));
    }

    /// Sends the answer once, if the requester has not confirmed it.
    pub(crate) fn send_answer(&mut self, id: EndId) {
        let Some(incoming) = self.incoming.get(&id) else { return };
        if let (Some(answer), false) = (incoming.answer, incoming.told) {
            self.say(incoming.node, incoming.from, Meeting::Answer { request: id, answer });
        }
    }

    /// Accepts a request with a VI that is neither connected nor connecting. The connection is established when the
    /// requester confirms the answer.
    ///
    /// # Errors
    /// The mismatch, if the two VIs do not match. A peer gets it as the answer; a client's request stays open for
    /// another VI. [`ConnectError::Timeout`] if the requester has given up.
    pub(crate) fn accept(&mut self, id: EndId, vi: ViId) -> Result<(), ConnectError> {
        let incoming = self.incoming.get_mut(&id).filter(|i| i.is_open());
        let (Some(incoming), Some(core)) = (incoming, self.vis.get(&vi)) else {
            return Err(ConnectError::Timeout);
        };
        let request = incoming.request.as_ref().ok_or(ConnectError::Timeout)?;
        if let Err(error) = incoming.acceptor.compare(&core.attributes, &request.attributes) {
            if incoming.acceptor.phase().is_over() {
                self.answer(id, refusal(&error));
            }
            return Err(error);
        }
        let attributes = told(core.attributes);
        let (node, from) = (incoming.node, incoming.from);
        let conn_id = self.net.name();
        let mut conn = self.new_conn(conn_id, (vi, core.nic.clone()), node, from, id);
        conn.unsettled = Some(id);
        self.conns.insert(conn_id, conn);
        if let Some(core) = self.vis.get_mut(&vi) {
            core.conn = Some(conn_id);
        }
        self.answer(id, Answer::Accepted { conn: conn_id, attributes });
        Ok(())
    }

    /// Processes the requester's confirmation of the answer.
    pub(crate) fn settled(&mut self, from: M::Node, id: EndId, connected: bool) {
        let Some(incoming) = self.incoming.get(&id).filter(|incoming| incoming.from == from) else {
            self.counters.strangers += 1;
            return;
        };
        if connected
            && incoming.settled == Some(false)
            && let Some(answer) = incoming.answer
        {
            // The requester has confirmed an outdated answer.
            return self.say(incoming.node, from, Meeting::Answer { request: id, answer });
        }
        self.settle(id, connected);
    }

    /// Takes back an acceptance whose answer the requester has not confirmed, because the program has ended the
    /// connection. Repeats the new answer until the requester confirms it: the requester may have stopped asking.
    pub(crate) fn take_back(&mut self, id: EndId) {
        self.decide(id, false);
        self.send_answer(id);
    }

    /// Records that the requester has the answer, or will never have it.
    pub(crate) fn settle(&mut self, id: EndId, connected: bool) {
        let Some(incoming) = self.incoming.get_mut(&id) else { return };
        incoming.told |= incoming.answer.is_some();
        self.decide(id, connected);
    }

    /// Decides whether an answer leads to a connection, if that is still open.
    fn decide(&mut self, id: EndId, connected: bool) {
        let Some(incoming) = self.incoming.get_mut(&id) else { return };
        let (Some(answer), None) = (incoming.answer, incoming.settled) else { return };
        let request = incoming.request.take();
        incoming.settled = Some(connected);
        self.news = true;
        let Answer::Accepted { conn: conn_id, .. } = answer else { return };
        let step = match &request {
            _ if !connected => Step::Lose,
            Some(request) if request.peer => Step::Meet,
            _ => Step::Accept,
        };
        let step = incoming.acceptor.step(step);
        debug_assert_eq!(step, Ok(()));
        if !connected {
            incoming.answer = Some(Answer::Rejected);
        }
        let Some(conn) = self.conns.get_mut(&conn_id) else { return };
        conn.unsettled = None;
        let vi = conn.vi;
        if !connected {
            self.conns.remove(&conn_id);
        }
        if let Some(vi) = vi {
            self.accepted(vi, connected, request);
        }
    }
}
