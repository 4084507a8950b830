//! Timed work of the NIC's thread.

use crate::agent::Agent;
use crate::agent::attempt::fail;
use crate::agent::role::{Errand, Role};
use crate::slot::lock;
use crate::state::{Own, ViShared};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;
use via::error::ConnectError;

/// Time between two checks whether the program still watches the channel.
const CHANNEL_AGAIN: Duration = Duration::from_millis(16);

impl Agent {
    /// Schedules a check whether the program polls this VI.
    pub(super) fn watch(&mut self, vi: &Arc<ViShared>) {
        let at = self.next_look(vi, Instant::now());
        match self.polled.iter_mut().find(|(known, _)| known.as_ptr() == Arc::as_ptr(vi)) {
            Some((_, known)) => *known = at,
            None => self.polled.push((Arc::downgrade(vi), at)),
        }
    }

    /// Returns the time of the next check whether the program polls this VI. The time is one to two times
    /// the VI's patience from now, rounded so that checks of several VIs coincide.
    fn next_look(&self, vi: &ViShared, now: Instant) -> Instant {
        let patience = vi.looks.patience();
        let passed = now.saturating_duration_since(self.begin).as_millis() as u64;
        self.begin + Duration::from_millis((passed / patience + 2) * patience)
    }

    /// Checks whether programs still poll the VIs whose time has come.
    fn look(&mut self, now: Instant) {
        let mut polled = core::mem::take(&mut self.polled);
        polled.retain_mut(|(vi, at)| {
            if *at > now {
                return true;
            }
            let Some(vi) = vi.upgrade().filter(|vi| vi.is_polled()) else { return false };
            *at = self.next_look(&vi, now);
            true
        });
        self.polled = polled;
    }

    /// Returns true if the thread must sleep on the channel. Arms all VIs if the thread has just taken the channel
    /// back.
    pub(super) fn looks_at_channel(&mut self, now: Instant) -> bool {
        let is_due = self.channel_at.is_some_and(|at| at <= now);
        let own = lock(&self.card.watching).own(is_due);
        self.channel_at = match own {
            Own::Looks if is_due || self.channel_at.is_none() => Some(now + CHANNEL_AGAIN),
            Own::Looks => self.channel_at,
            Own::Sleeps | Own::Arms | Own::Rests => None,
        };
        self.has_channel = matches!(own, Own::Sleeps | Own::Arms);
        if own == Own::Arms {
            self.card.arm_all();
        }
        self.has_channel
    }

    /// Ends attempts that have timed out, and repeats requests and reports that are due. Returns the time of the next
    /// call.
    pub(super) fn look_at_time(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.look(now);
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
        let look = self.polled.iter().map(|(_, at)| *at);
        let untold = self.untold.iter().map(|(at, ..)| *at);
        peers.chain(asking).flatten().chain(look).chain(untold).chain(self.channel_at).min()
    }
}
