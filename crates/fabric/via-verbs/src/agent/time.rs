//! What the thread does by the clock.

use crate::agent::attempt::fail;
use crate::agent::role::{Errand, Role};
use crate::agent::{Agent, WHILE};
use crate::state::ViShared;
use std::sync::Arc;
use std::time::Instant;
use via::error::ConnectError;

impl Agent {
    /// Looks, after a while, whether the program polls this VI.
    pub(super) fn watch(&mut self, vi: &Arc<ViShared>) {
        if self.polled.is_empty() {
            self.look_at = Instant::now() + WHILE;
        }
        if !self.polled.iter().any(|known| known.as_ptr() == Arc::as_ptr(vi)) {
            self.polled.push(Arc::downgrade(vi));
        }
    }

    /// Ends attempts whose time is over, and asks again; when to look next.
    pub(super) fn look_at_time(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if !self.polled.is_empty() && self.look_at <= now {
            self.polled.retain(|vi| vi.upgrade().is_some_and(|vi| vi.is_polled()));
            self.look_at = now + WHILE;
        }
        let (tell, later): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.untold).into_iter().partition(|(at, ..)| *at <= now);
        self.untold = later;
        for (_, question, errand) in tell {
            if let Errand::Close(_, to, _) = errand {
                self.ask(to, question, errand);
            }
        }
        let due = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        let over =
            self.peers.iter().filter(|(_, (attempt, _))| due(attempt.until)).map(|(name, _)| *name);
        let asking = self.roles.iter().filter_map(|(name, (_, role))| match role {
            Role::Requests(attempt) if attempt.is_peer && due(attempt.until) => Some(*name),
            _ => None,
        });
        let over: Vec<u64> = over.chain(asking).collect();
        for name in over {
            let attempt = match (self.peers.remove(&name), self.roles.remove(&name)) {
                (Some((attempt, _)), _) | (None, Some((_, Role::Requests(attempt)))) => attempt,
                _ => continue,
            };
            fail(name, &attempt, ConnectError::Timeout);
        }
        let again: Vec<u64> =
            self.peers.iter().filter(|(_, (_, at))| due(*at)).map(|(name, _)| *name).collect();
        for name in again {
            if let Some((attempt, _)) = self.peers.remove(&name) {
                self.request(name, attempt);
            }
        }
        let peers = self.peers.values().flat_map(|(attempt, at)| [attempt.until, *at]);
        let asking = self.roles.values().map(|(_, role)| match role {
            Role::Requests(attempt) if attempt.is_peer => attempt.until,
            _ => None,
        });
        let look = (!self.polled.is_empty()).then_some(self.look_at);
        let untold = self.untold.iter().map(|(at, ..)| *at);
        peers.chain(asking).flatten().chain(look).chain(untold).min()
    }
}
