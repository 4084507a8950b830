//! Looks of an acceptor.

use crate::rendezvous::connector::hello;
use crate::rendezvous::look::Rendezvous;
use crate::rendezvous::world::{
    ACCEPTOR, At, CONNECTOR, End, NameState, Phase, SEGMENTS, VIS, World,
};

impl Rendezvous {
    /// First part of a look: receives the offers, one at a time.
    pub(crate) fn look_as_acceptor(&self, w: &mut World, conn: usize) {
        let me = self.process(conn, ACCEPTOR);
        match w.ends[conn][ACCEPTOR] {
            End::New => w.ends[conn][ACCEPTOR] = End::Looking { greeted: false },
            End::Looking { .. } if !w.inbox[me].is_empty() => self.receive(w, me),
            End::Looking { .. } => w.at[me] = At::Find { conn },
            _ => {}
        }
    }

    /// Second part of a look: looks for a request for the acceptor's connection, and sends Hello if there is none.
    pub(crate) fn find(&self, w: &mut World, conn: usize) {
        let me = self.process(conn, ACCEPTOR);
        if let Some((segment, vi)) = self.find_request(w, conn) {
            w.at[me] = At::Found { conn, segment, vi, fresh: true };
            return;
        }
        if w.ends[conn][ACCEPTOR] != (End::Looking { greeted: false }) {
            return;
        }
        let sent = match w.names[conn].state {
            NameState::None => false,
            NameState::OtherUser => true,
            NameState::Rendezvous | NameState::Greeting(_) => {
                w.names[conn].queue.push(hello(me, conn), self.limits.room)
            }
        };
        w.ends[conn][ACCEPTOR] = End::Looking { greeted: sent };
    }

    fn find_request(&self, w: &mut World, conn: usize) -> Option<(usize, usize)> {
        let me = self.process(conn, ACCEPTOR);
        let known = self.is_known(w, conn, CONNECTOR);
        (0..SEGMENTS)
            .filter(|&s| w.pairs[me][s].is_some())
            .flat_map(|s| (0..VIS).map(move |v| (s, v)))
            .filter(|&(s, v)| {
                let side = w.segment(s).side(me);
                let vi = w.segment(s).vis[v];
                v & 1 != side && vi.pending && vi.phase == Phase::Requested && vi.conn == conn
            })
            .rfind(|_| known)
    }

    /// Third part of a look: takes the request, and attaches.
    pub(crate) fn take(&self, w: &mut World, conn: usize, s: usize, v: usize, fresh: bool) {
        let me = self.process(conn, ACCEPTOR);
        if !w.pair(me, s).doorbells {
            return;
        }
        let found = fresh || !self.rules.accept_what_was_found;
        let vi = w.vi(s, v);
        let taken = vi.phase == Phase::Requested && found || !self.rules.accept_by_exchange;
        if taken || !self.rules.clear_what_was_taken {
            vi.pending = false;
        }
        if taken {
            vi.phase = Phase::Accepted;
            self.attach(w, conn, ACCEPTOR, s, v);
        }
    }
}
