//! The NIC's thread. It connects VIs, answers questions, ends connections, and passes events to sleeping threads.

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

/// Time between two attempts to meet a peer that is not there yet.
const AGAIN: Duration = Duration::from_millis(10);

/// Time between two attempts to report the end of a connection.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// Number of these attempts. In that time a link may come back.
const TELLINGS: u32 = 60;

/// State of the NIC's thread.
pub(crate) struct Agent {
    card: Arc<Card>,
    _questions: Id,
    roles: HashMap<u64, (Option<Id>, Role)>,
    /// Attempts with peers. Each waits for the peer's request, or until the given time to send a request again.
    peers: HashMap<u64, (Attempt, Option<Instant>)>,
    /// Ends of connections that the peer has not acknowledged, and the times to report them again.
    untold: Vec<(Instant, Question, Errand)>,
    /// VIs that the program probably polls, and the times to check this again.
    polled: Vec<(Weak<ViShared>, Instant)>,
    /// True while the thread sleeps on the channel. `channel_at` is the time of the next check while it does not.
    has_channel: bool,
    channel_at: Option<Instant>,
    /// Time when the thread began. Checks of VIs happen at multiples of a period from this time, so that they coincide.
    begin: Instant,
    is_ending: bool,
}

impl Agent {
    /// Name of the listening identifier for connections. No other identifier has this name.
    pub(crate) const LISTENER: u64 = u64::MAX;
    /// Name of the listening identifier for questions.
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
                // ppoll ignores an entry with a negative descriptor.
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
                // Of two peers, the one with the larger address sends the request.
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
