//! Asks and answers questions by the connection manager.

use crate::agent::role::{Errand, Role};
use crate::agent::{Agent, TELL_AGAIN, TELLINGS};
use crate::state::ViShared;
use crate::wire::{Answer, Question};
use sovia_verbs::{EventKind, Id, Space};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

impl Agent {
    pub(super) fn ask(&mut self, to: SocketAddr, question: Question, errand: Errand) {
        let name = self.card.name();
        match self.resolving(Space::Questions, name, to) {
            Ok(id) => {
                self.roles.insert(name, (Some(id), Role::Asks(question, errand)));
            }
            Err(_) => self.answered(question, errand, None),
        }
    }

    pub(super) fn answered(&mut self, question: Question, errand: Errand, answer: Option<Answer>) {
        match (errand, question) {
            (Errand::Close(name, to, told), _)
                if answer.is_none() && told < TELLINGS && self.roles.contains_key(&name) =>
            {
                let errand = Errand::Close(name, to, told + 1);
                self.untold.push((Instant::now() + TELL_AGAIN, question, errand));
            }
            (Errand::Close(name, ..), _) => self.close(name),
            (Errand::Key(vi, name), Question::Key { handle, write, .. }) => {
                let Some(vi) = self.card.vi(vi) else { return };
                match answer {
                    Some(Answer::Key(key)) => vi.key(name, handle, write, Some(key)),
                    Some(Answer::Denied) => vi.key(name, handle, write, None),
                    // The connection has ended, and this side will be notified.
                    Some(Answer::Heard) => {}
                    None => vi.lost(name),
                }
            }
            (Errand::Key(..), _) => {}
        }
    }

    pub(super) fn asks(
        &mut self,
        name: u64,
        id: Option<Id>,
        question: Question,
        errand: Errand,
        kind: EventKind,
        said: &[u8],
    ) {
        let Some(id) = id else { return };
        let goes_on = match kind {
            EventKind::AddressResolved => id.resolve_route().is_ok(),
            EventKind::RouteResolved => id.connect(&question.bytes(), 0, 0).is_ok(),
            EventKind::Established => {
                self.answered(question, errand, Answer::parse(said));
                return;
            }
            EventKind::Other => true,
            _ => false,
        };
        if goes_on {
            self.roles.insert(name, (Some(id), Role::Asks(question, errand)));
        } else {
            self.answered(question, errand, None);
        }
    }

    /// Answers a question of the peer.
    pub(super) fn question(&mut self, id: &Id, said: &[u8]) {
        let answer = match Question::parse(said) {
            None => Answer::Denied,
            Some(Question::Key { token, handle, address, length, write, immediate }) => {
                let vi = self.card.connected(token);
                let range = (address, length);
                let asked = |vi: Arc<ViShared>| vi.asked(token, handle, range, write, immediate);
                vi.map_or(Answer::Heard, asked)
            }
            Some(Question::Close { token, closing, received }) => {
                if let Some(vi) = self.card.connected(token) {
                    vi.told(token, closing, received);
                }
                Answer::Heard
            }
        };
        let _ = id.accept(&answer.bytes(), 0, 1);
    }

    /// Closes a connection. The peer already knows the reason.
    pub(super) fn close(&mut self, name: u64) {
        if let Some((Some(id), _)) = self.roles.remove(&name) {
            id.disconnect();
        }
    }
}
