//! Parts of a look that connectors and acceptors share: proof, inbox, and table of requests.

use crate::rendezvous::rules::{Answers, Limits, Precautions, Scene};
use crate::rendezvous::world::{
    ACCEPTOR, At, Breach, CONNECTOR, End, FOREIGN, Message, MessageKind, NAMESAKE, Name, NameState,
    OTHER_USER, PROCESSES, Pair, Phase, ProcessState, SEGMENTS, VIS, World,
};

/// A variant of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rendezvous {
    pub(crate) scene: Scene,
    pub(crate) limits: Limits,
    pub(crate) rules: Precautions,
}

impl Rendezvous {
    pub(crate) fn process(&self, conn: usize, role: usize) -> usize {
        self.scene.processes(conn)[role]
    }

    /// Returns true if the kernel reports an owner of that end.
    pub(crate) fn is_known(&self, w: &World, conn: usize, role: usize) -> bool {
        w.is_open(conn, role) || self.limits.remembers_closed
    }

    fn user_and_process(&self, message: &Message) -> bool {
        (message.sender != OTHER_USER || !self.rules.check_user)
            && (message.from == message.sender || !self.rules.check_process)
    }

    /// Returns true if the message comes from the process that has the end of `role`.
    pub(crate) fn is_proven(&self, w: &World, message: &Message, role: usize) -> bool {
        let cookie = message.cookie && self.is_known(w, message.conn, role);
        self.user_and_process(message) && (cookie || !self.rules.check_cookie)
    }

    /// Sends a message with descriptors to a process's inbox.
    pub(crate) fn hand_out(&self, w: &mut World, to: usize, role: usize, message: Message) -> bool {
        if to != self.process(message.conn, role) {
            w.breach = Some(Breach::HandedOut);
        }
        to < PROCESSES
            && w.process_states[to] == ProcessState::Alive
            && w.inbox[to].push(message, self.limits.room)
    }

    /// Returns the pair that `me` has with `peer`, in which `me` has the given role.
    pub(crate) fn pair_with(
        &self,
        w: &World,
        me: usize,
        peer: usize,
        role: usize,
    ) -> Option<usize> {
        (0..SEGMENTS).rev().find(|&s| {
            let Some(pair) = w.pairs[me][s] else { return false };
            let segment = w.segment(s);
            let side = segment.side(me);
            let other = if side == 0 { segment.peer } else { segment.maker };
            other == peer
                && (!pair.inherited || !self.rules.own_pairs)
                && (side == role || !self.rules.pairs_by_role)
        })
    }

    /// Receives one message from the inbox.
    pub(crate) fn receive(&self, w: &mut World, me: usize) {
        match w.inbox[me].pop() {
            Some(message) if message.kind == MessageKind::Offer => {
                self.receive_offer(w, me, message)
            }
            Some(message) if message.kind == MessageKind::Accept => {
                let pair = self.pair_with(w, me, message.from, CONNECTOR);
                if let Some(s) = pair {
                    self.receive_accept(w, me, s, &message);
                }
            }
            _ => {}
        }
    }

    /// Applies an answer, which carries the peer's doorbells.
    pub(crate) fn receive_accept(&self, w: &mut World, me: usize, s: usize, message: &Message) {
        let peer = w.segment(s).peer;
        let pair = w.pair(me, s);
        if message.kind == MessageKind::Accept
            && message.from == peer
            && self.user_and_process(message)
            && !pair.doorbells
        {
            *pair = Pair { doorbells: true, file: false, ..*pair };
            if message.sender != peer {
                w.breach = Some(Breach::TakenIn);
            }
        }
    }

    fn receive_offer(&self, w: &mut World, me: usize, message: Message) {
        let conn = message.conn;
        let looking = matches!(w.ends[conn][ACCEPTOR], End::Looking { .. });
        if !looking || self.process(conn, ACCEPTOR) != me || !self.is_proven(w, &message, CONNECTOR)
        {
            return;
        }
        let known = self.pair_with(w, me, message.from, ACCEPTOR).is_some();
        if known && !self.rules.answer_again {
            return;
        }
        let answer =
            Message { kind: MessageKind::Accept, from: me, sender: me, cookie: true, ..message };
        let sent = if self.rules.answers == Answers::Inbox {
            self.hand_out(w, message.sender, CONNECTOR, answer)
        } else {
            matches!(w.names[conn].state, NameState::Greeting(_))
                && w.names[conn].queue.push(answer, self.limits.room)
        };
        if known || self.rules.answer_first && !sent {
            return;
        }
        if message.sender != self.process(conn, CONNECTOR) {
            w.breach = Some(Breach::TakenIn);
            return;
        }
        w.pairs[me][message.segment] =
            Some(Pair { doorbells: true, file: false, inherited: false });
    }

    /// Requests a VI for a connection in a segment.
    pub(crate) fn request(&self, w: &mut World, conn: usize, s: usize) -> bool {
        let me = self.process(conn, CONNECTOR);
        let side = w.segment(s).side(me);
        let Some(v) = (0..VIS).find(|&v| v & 1 == side && w.vi(s, v).is_free()) else {
            return false;
        };
        for at in &mut w.at {
            if let At::Found { segment, vi, fresh, .. } = at
                && (*segment, *vi) == (s, v)
            {
                *fresh = false;
            }
        }
        let vi = w.vi(s, v);
        vi.phase = Phase::Requested;
        vi.conn = conn;
        vi.pending = true;
        vi.left = [false; 2];
        if self.rules.recycle {
            vi.granted = [None; 2];
        }
        w.ends[conn][CONNECTOR] = End::Requested(s, v);
        true
    }

    /// Takes a request back. Returns false if an acceptor has taken it meanwhile.
    pub(crate) fn withdraw(&self, w: &mut World, s: usize, v: usize) -> bool {
        let vi = w.vi(s, v);
        vi.pending = false;
        let free = vi.phase == Phase::Requested || !self.rules.withdraw_by_exchange;
        if free {
            vi.phase = Phase::Free;
        }
        free
    }

    pub(crate) fn attach(&self, w: &mut World, conn: usize, role: usize, s: usize, v: usize) {
        let side = w.segment(s).side(self.process(conn, role));
        w.vi(s, v).granted[side] = Some(conn);
        w.ends[conn][role] = End::Attached(s, v);
    }

    /// Ends an end's part, because its program has closed it or because it gives up.
    pub(crate) fn end(&self, w: &mut World, conn: usize, role: usize, after: End) {
        let me = self.process(conn, role);
        self.settle(w, conn);
        match w.ends[conn][role] {
            End::Bound => w.names[conn] = Name::FREE,
            End::Requested(s, v) => {
                let taken = !self.withdraw(w, s, v);
                let side = w.segment(s).side(me);
                w.vi(s, v).left[side] |= taken && self.rules.leave_what_was_accepted;
            }
            End::Attached(s, v) => {
                let side = w.segment(s).side(me);
                w.vi(s, v).left[side] = true;
            }
            _ => {}
        }
        w.ends[conn][role] = after;
    }

    /// Kills a process. The kernel closes its descriptors, and no other process is notified.
    pub(crate) fn die(&self, w: &mut World, me: usize) {
        w.process_states[me] = ProcessState::Dead;
        w.at[me] = At::Outside;
        w.inbox[me] = Default::default();
        w.pairs[me] = [None; SEGMENTS];
        for conn in 0..w.ends.len() {
            for role in [CONNECTOR, ACCEPTOR] {
                if self.process(conn, role) == me {
                    w.ends[conn][role] = End::Closed;
                }
            }
            let its = match w.names[conn].state {
                NameState::Rendezvous | NameState::Greeting(_) => {
                    self.process(conn, CONNECTOR) == me
                }
                NameState::None | NameState::OtherUser => false,
            };
            if its {
                w.names[conn] = Name::FREE;
            }
        }
    }
}

/// Calls `each` with the messages that an attacker could send about a connection. Each has one wrong field: the
/// user, the claimed process, or the cookie.
pub(crate) fn lies(conn: usize, claimed: usize, mut each: impl FnMut(Message)) {
    let wrong =
        [(OTHER_USER, OTHER_USER, true), (NAMESAKE, claimed, true), (NAMESAKE, NAMESAKE, false)];
    for kind in [MessageKind::Hello, MessageKind::Offer, MessageKind::Accept] {
        for (sender, from, cookie) in wrong {
            each(Message { kind, from, sender, conn, cookie, segment: FOREIGN });
        }
    }
}
