//! Looks of a connector.

use crate::rendezvous::look::Rendezvous;
use crate::rendezvous::rules::Answers;
use crate::rendezvous::world::{
    ACCEPTOR, At, CONNECTIONS, CONNECTOR, End, FOREIGN, Message, MessageKind, Name, NameState,
    Pair, Phase, SEGMENTS, Segment, World,
};

impl Rendezvous {
    /// Looks once for the connector's end.
    pub(crate) fn look_as_connector(&self, w: &mut World, conn: usize) {
        match w.ends[conn][CONNECTOR] {
            End::New => {
                let known = self.pair_at(w, conn);
                if !known.is_some_and(|s| self.request(w, conn, s)) && self.bind(w, conn) {
                    w.ends[conn][CONNECTOR] = End::Bound;
                }
            }
            End::Bound => {
                if let Some(message) = w.names[conn].queue.pop() {
                    self.receive_hello(w, conn, &message);
                }
            }
            End::Requested(s, v) => self.look_at_request(w, conn, s, v),
            _ => {}
        }
    }

    /// Returns the latest pair whose peer accepts at the connection's listener.
    fn pair_at(&self, w: &World, conn: usize) -> Option<usize> {
        let me = self.process(conn, CONNECTOR);
        (0..SEGMENTS).rev().find(|&s| {
            w.pairs[me][s].is_some() && {
                let segment = w.segment(s);
                segment.maker == me
                    && segment.server == self.scene.server(conn)
                    && w.is_alive(segment.peer)
            }
        })
    }

    fn bind(&self, w: &mut World, conn: usize) -> bool {
        let free = w.names[conn].state == NameState::None;
        if free {
            w.names[conn].state = NameState::Rendezvous;
        }
        free
    }

    fn receive_hello(&self, w: &mut World, conn: usize, message: &Message) {
        if message.kind != MessageKind::Hello || !self.is_proven(w, message, ACCEPTOR) {
            return;
        }
        let me = self.process(conn, CONNECTOR);
        let known = self.pair_with(w, me, message.from, CONNECTOR);
        let s = known.unwrap_or_else(|| {
            let free = w.segments.iter().position(Option::is_none);
            let s = free.expect("the model outgrew its segments");
            w.segments[s] = Some(Segment::new(me, message.from, self.scene.server(conn)));
            w.pairs[me][s] = Some(Pair { doorbells: false, file: true, inherited: false });
            s
        });
        if !self.request(w, conn, s) {
            return;
        }
        if w.pair(me, s).doorbells {
            w.names[conn] = Name::FREE;
        } else {
            w.at[me] = At::Offer { conn, segment: s, to: message.sender };
        }
    }

    /// Sends the offer that follows a request.
    pub(crate) fn offer(&self, w: &mut World, conn: usize, s: usize, to: usize) {
        let me = self.process(conn, CONNECTOR);
        let offer = Message {
            kind: MessageKind::Offer,
            from: me,
            sender: me,
            conn,
            cookie: true,
            segment: s,
        };
        let sent = w.pair(me, s).file && self.hand_out(w, to, ACCEPTOR, offer);
        if sent && !self.rules.keep_file {
            w.pair(me, s).file = false;
        }
        if !sent || self.rules.answers == Answers::Inbox {
            w.names[conn] = Name::FREE;
            return;
        }
        // The answer comes to the name from which the offer was sent.
        for name in &mut w.names {
            if name.state == NameState::Greeting(s) && self.rules.answers == Answers::LastName {
                *name = Name::FREE;
            }
        }
        w.names[conn].state = NameState::Greeting(s);
    }

    fn look_at_request(&self, w: &mut World, conn: usize, s: usize, v: usize) {
        let me = self.process(conn, CONNECTOR);
        let phase = w.vi(s, v).phase;
        if !w.pair(me, s).doorbells && (self.rules.receive_always || phase == Phase::Accepted) {
            self.receive_answer(w, me, s);
        }
        match phase {
            Phase::Accepted if w.pair(me, s).doorbells || !self.rules.doorbells_first => {
                self.attach(w, conn, CONNECTOR, s, v);
            }
            // The connector attaches before its first byte. An acceptor may or may not have taken the request
            // meanwhile.
            Phase::Requested if self.limits.early && w.pair(me, s).doorbells => {
                self.attach(w, conn, CONNECTOR, s, v);
                w.ends[conn][CONNECTOR] = End::Early(s, v);
            }
            Phase::Free => w.ends[conn][CONNECTOR] = End::Plain,
            _ => {}
        }
    }

    fn receive_answer(&self, w: &mut World, me: usize, s: usize) {
        if self.rules.answers == Answers::Inbox {
            return self.receive(w, me);
        }
        for conn in 0..CONNECTIONS {
            while w.names[conn].state == NameState::Greeting(s)
                && let Some(message) = w.names[conn].queue.pop()
            {
                self.receive_accept(w, me, s, &message);
            }
        }
        if w.pair(me, s).doorbells {
            for name in &mut w.names {
                if name.state == NameState::Greeting(s) {
                    *name = Name::FREE;
                }
            }
        }
    }

    /// Decides an early attachment, because bytes have arrived on TCP or must be sent there. If no acceptor has
    /// taken the request, the connector revokes it.
    pub(crate) fn settle(&self, w: &mut World, conn: usize) {
        let End::Early(s, v) = w.ends[conn][CONNECTOR] else { return };
        let side = w.segment(s).side(self.process(conn, CONNECTOR));
        let vi = w.vi(s, v);
        if vi.phase == Phase::Requested || !self.rules.revoke_by_exchange {
            // This is the state after an acceptor has taken the request and has left.
            vi.phase = Phase::Accepted;
            vi.pending = false;
            vi.left[side ^ 1] = true;
            // The connector leaves the VI, too.
            vi.left[side] = true;
            w.ends[conn][CONNECTOR] = End::Plain;
        } else {
            w.ends[conn][CONNECTOR] = End::Attached(s, v);
        }
    }

    /// Begins to go back to the rendezvous name, because the request has not been taken for a time. Another process
    /// may have the other end.
    pub(crate) fn try_other_way(&self, w: &mut World, conn: usize) {
        let End::Requested(s, v) = w.ends[conn][CONNECTOR] else { return };
        if self.rules.try_other_way && w.vi(s, v).phase == Phase::Requested && self.bind(w, conn) {
            w.at[self.process(conn, CONNECTOR)] = At::Withdraw { conn };
        }
    }

    /// Completes `try_other_way`.
    pub(crate) fn go_other_way(&self, w: &mut World, conn: usize) {
        let End::Requested(s, v) = w.ends[conn][CONNECTOR] else { return };
        if self.withdraw(w, s, v) {
            w.ends[conn][CONNECTOR] = End::Bound;
        } else {
            w.names[conn] = Name::FREE;
        }
    }
}

/// Returns the Hello of an acceptor.
pub(crate) fn hello(me: usize, conn: usize) -> Message {
    Message { kind: MessageKind::Hello, from: me, sender: me, conn, cookie: true, segment: FOREIGN }
}
