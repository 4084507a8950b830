//! The NIC's thread: connects VIs, answers questions, ends what is over, and brings news to threads that sleep.

mod accepting;
mod attempt;
mod questions;
mod requesting;
mod role;
mod time;

use crate::slot::lock;
use crate::state::{Card, Job, ViShared, hush};
use crate::wire::Question;
use core::time::Duration;
use role::{Attempt, Errand, Role};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_verbs::{Event, EventKind, Id};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Between two attempts to meet a peer that is not there yet.
const AGAIN: Duration = Duration::from_millis(10);

/// Between two attempts to tell that a connection has ended, and how many there are: a link may be back by then.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// See there.
const TELLINGS: u32 = 60;

/// The thread's own state.
pub(crate) struct Agent {
    card: Arc<Card>,
    _questions: Id,
    roles: HashMap<u64, (Option<Id>, Role)>,
    /// Peers' attempts that wait to be asked, or to ask again then.
    peers: HashMap<u64, (Attempt, Option<Instant>)>,
    /// Ends of connections that are to be told again, and when.
    untold: Vec<(Instant, Question, Errand)>,
    /// VIs that their program polls, as far as is known, and when to ask again.
    polled: Vec<(Weak<ViShared>, Instant)>,
    /// Whether the thread sleeps on the channel, and when it looks again where it does not.
    has_channel: bool,
    channel_at: Option<Instant>,
    /// When the thread began: VIs are asked together, at times that are counted from then.
    begin: Instant,
    is_ending: bool,
}

impl Agent {
    /// What the identifiers that listen are named: no other is named so.
    pub(crate) const LISTENER: u64 = u64::MAX;
    /// See there.
    pub(crate) const QUESTIONS: u64 = u64::MAX - 1;
    /// EADDRINUSE.
    pub(crate) const IN_USE: i32 = 98;

    pub(crate) fn new(card: Arc<Card>, questions: Id) -> Agent {
        let (roles, peers) = (HashMap::new(), HashMap::new());
        Agent {
            card,
            _questions: questions,
            roles,
            peers,
            untold: Vec::new(),
            polled: Vec::new(),
            has_channel: true,
            channel_at: None,
            begin: Instant::now(),
            is_ending: false,
        }
    }

    pub(crate) fn run(mut self) {
        const IN: i16 = 1;
        let card = self.card.clone();
        loop {
            hush(&card.bell);
            while let Some(job) = { lock(&card.jobs).pop_front() } {
                self.job(job);
            }
            while let Some(event) = card.events.take() {
                self.event(event);
            }
            if self.looks_at_channel(Instant::now()) {
                card.news().filter(|vi| vi.stirred()).for_each(|vi| self.watch(&vi));
            }
            if self.is_ending
                && !self.roles.values().any(|(_, role)| matches!(role, Role::Asks(..)))
            {
                return;
            }
            let next = self.look_at_time();
            let wait =
                next.map(|next| next.saturating_duration_since(Instant::now()).as_nanos() as u64);
            if lock(&card.jobs).is_empty() {
                // The kernel leaves out an entry without a descriptor.
                let channel = if self.has_channel { card.channel.descriptor() } else { -1 };
                let descriptors = [card.events.descriptor(), channel, card.bell.raw()];
                let mut fds = descriptors.map(|fd| PollFd { fd, events: IN, revents: 0 });
                let _ = ppoll(&mut fds, wait, None);
            }
        }
    }

    fn job(&mut self, job: Job) {
        match job {
            Job::Connect { vi, name, local, remote, to, until, is_peer } => {
                let attempt = Attempt { vi, local, remote, to, until, is_peer };
                // Of two peers, the one with the larger address asks.
                if is_peer && attempt.local <= attempt.remote {
                    self.peers.insert(name, (attempt, None));
                } else {
                    self.request(name, attempt);
                }
            }
            Job::Accept { name, vi, accepted } => {
                let mut accepted = Some(accepted);
                if let Err(error) = self.accept(name, &vi, &mut accepted)
                    && let Some(accepted) = accepted
                {
                    accepted.answer(Err(error));
                }
            }
            Job::Reject { name, refusal } => {
                if let Some((Some(id), Role::Asked(..))) = self.roles.remove(&name) {
                    id.reject(&refusal.bytes());
                }
            }
            Job::Forget { name } => {
                self.peers.remove(&name);
                self.roles.remove(&name);
            }
            Job::Ask { to, question, vi, name } => self.ask(to, question, Errand::Key(vi, name)),
            Job::Close { name, tell } => {
                if let Some((_, role)) = self.roles.get_mut(&name) {
                    *role = Role::Ends;
                }
                match tell {
                    Some((to, question)) => self.ask(to, question, Errand::Close(name, to, 0)),
                    None => self.close(name),
                }
            }
            Job::Polled(vi) => {
                if let Some(vi) = vi.upgrade() {
                    self.watch(&vi);
                }
            }
            Job::End => self.is_ending = true,
        }
    }

    fn event(&mut self, event: Event) {
        let Event { kind, name, id, said } = event;
        if let Some(id) = id {
            return if name == Agent::QUESTIONS {
                self.question(&id, &said)
            } else {
                self.asked(id, &said)
            };
        }
        let Some((id, role)) = self.roles.remove(&name) else { return };
        match role {
            Role::Requests(attempt) => self.requests(name, id, attempt, kind, &said),
            Role::Asks(question, errand) => self.asks(name, id, question, errand, kind, &said),
            Role::Asked(..)
                if matches!(
                    kind,
                    EventKind::Rejected(_) | EventKind::Unreachable | EventKind::Disconnected
                ) => {}
            Role::Accepting(vi, theirs, accepted) => {
                self.accepting(name, id, (vi, theirs), accepted, kind);
            }
            Role::Connected(vi) => {
                if matches!(kind, EventKind::Disconnected | EventKind::DeviceRemoved) {
                    let vi = vi.upgrade();
                    self.roles.insert(name, (id, Role::Ends));
                    match vi {
                        Some(vi) => vi.lost(name),
                        None => self.close(name),
                    }
                } else {
                    self.roles.insert(name, (id, Role::Connected(vi)));
                }
            }
            role @ (Role::Asked(..) | Role::Ends) => {
                self.roles.insert(name, (id, role));
            }
        }
    }
}
