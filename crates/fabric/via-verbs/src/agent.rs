//! The NIC's thread: connects VIs, answers questions, ends what is over, and brings news to threads that sleep.

use crate::card::Card;
use crate::config::host;
use crate::connection::VerbsConnection;
use crate::core::{Link, ViShared};
use crate::slot::{Slot, lock};
use crate::wire::{Answer, Hello, Question, Refusal, Welcome};
use core::time::Duration;
use sovia_sys::poll::{PollFd, ppoll};
use sovia_verbs::pair::Size;
use sovia_verbs::{Cq, Error, Event, EventKind, Id, Pair, Rights, Space};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;
use via::error::ConnectError;
use via::state::Event as Step;
use via::{NetAddress, ViAttributes, ViState};

/// How a thread that accepts is told what has become of it.
type Accepted = Slot<Result<(), ConnectError>>;

/// What the thread is asked to do.
pub(crate) enum Job {
    /// Connect a VI.
    Connect {
        vi: Arc<ViShared>,
        name: u64,
        local: NetAddress,
        remote: NetAddress,
        to: SocketAddr,
        until: Option<Instant>,
        is_peer: bool,
    },
    /// Accept a request that the program has.
    Accept { name: u64, vi: Arc<ViShared>, slot: Accepted },
    /// Refuse it.
    Reject { name: u64, refusal: Refusal },
    /// An attempt is over.
    Forget { name: u64 },
    /// Ask the far side for a key.
    Ask { to: SocketAddr, question: Question, vi: u64, name: u64 },
    /// A connection is over; the far side may have to be told.
    Close { name: u64, tell: Option<(SocketAddr, Question)> },
    /// The NIC is closed.
    End,
}

/// A VI that connects.
struct Attempt {
    vi: Arc<ViShared>,
    local: NetAddress,
    remote: NetAddress,
    to: SocketAddr,
    until: Option<Instant>,
    is_peer: bool,
}

/// What an identifier is for.
enum Role {
    /// To ask for a connection.
    Requests(Attempt),
    /// A request, which the program or a peer's attempt answers.
    Asked(Hello, SocketAddr),
    /// It has been accepted; the far side has not said yet that it knows.
    Accepting(Arc<ViShared>, ViAttributes, Option<Accepted>),
    /// A connection.
    Connected(Weak<ViShared>),
    /// To ask a question.
    Asks(Question, Errand),
    /// Its connection has ended, and the far side is being told.
    Ends,
}

/// What the answer is for.
enum Errand {
    /// A VI that waits for a key, on that connection.
    Key(u64, u64),
    /// The end of that connection, told to the NIC there; so often it has been told without an answer.
    Close(u64, SocketAddr, u32),
}

/// Between two attempts to meet a peer that is not there yet.
const AGAIN: Duration = Duration::from_millis(10);

/// Between two attempts to tell that a connection has ended, and how many there are: a link may be back by then.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// See there.
const TELLINGS: u32 = 60;

/// Between two looks whether programs poll.
const WHILE: Duration = Duration::from_millis(4);

/// The thread's own state.
pub(crate) struct Agent {
    card: Arc<Card>,
    _questions: Id,
    roles: HashMap<u64, (Option<Id>, Role)>,
    /// Peers' attempts that wait to be asked, or to ask again then.
    peers: HashMap<u64, (Attempt, Option<Instant>)>,
    /// Ends of connections that are to be told again, and when.
    untold: Vec<(Instant, Question, Errand)>,
    /// VIs that their program polls, as far as is known.
    polled: Vec<Weak<ViShared>>,
    look_at: Instant,
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
            look_at: Instant::now(),
            is_ending: false,
        }
    }

    pub(crate) fn run(mut self) {
        const IN: i16 = 1;
        let descriptors =
            [self.card.events.descriptor(), self.card.channel.descriptor(), self.card.bell.raw()];
        let mut fds = descriptors.map(|fd| PollFd { fd, events: IN, revents: 0 });
        loop {
            let mut bytes = [0; 8];
            let _ = sovia_sys::call::read(self.card.bell.raw(), &mut bytes);
            while let Some(job) = { lock(&self.card.jobs).pop_front() } {
                self.job(job);
            }
            while let Some(event) = self.card.events.take() {
                self.event(event);
            }
            while let Some(name) = self.card.channel.news() {
                if let Some(vi) = self.card.vi(name)
                    && vi.stirred()
                {
                    self.watch(&vi);
                }
            }
            if self.is_ending
                && !self.roles.values().any(|(_, role)| matches!(role, Role::Asks(..)))
            {
                return;
            }
            let next = self.look_at_time();
            let wait =
                next.map(|next| next.saturating_duration_since(Instant::now()).as_nanos() as u64);
            if lock(&self.card.jobs).is_empty() {
                let _ = ppoll(&mut fds, wait, None);
            }
        }
    }

    /// Looks, after a while, whether the program polls this VI.
    fn watch(&mut self, vi: &Arc<ViShared>) {
        if self.polled.is_empty() {
            self.look_at = Instant::now() + WHILE;
        }
        if !self.polled.iter().any(|known| known.as_ptr() == Arc::as_ptr(vi)) {
            self.polled.push(Arc::downgrade(vi));
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
            Job::Accept { name, vi, slot } => {
                if let Err(error) = self.accept(name, &vi, Some(slot.clone())) {
                    slot.put(Err(error));
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
            Job::End => self.is_ending = true,
        }
    }

    /// The far side knows why; now it may know that.
    fn close(&mut self, name: u64) {
        if let Some((Some(id), _)) = self.roles.remove(&name) {
            id.disconnect();
        }
    }

    /// An identifier that looks for the way to a far NIC.
    fn resolving(&self, space: Space, name: u64, to: SocketAddr) -> Result<Id, Error> {
        let id = Id::new(&self.card.events, space, name)?;
        id.resolve(self.card.at.ip(), to)?;
        Ok(id)
    }

    fn request(&mut self, name: u64, attempt: Attempt) {
        match self.resolving(Space::Connections, name, attempt.to) {
            Ok(id) => {
                self.roles.insert(name, (Some(id), Role::Requests(attempt)));
            }
            Err(_) => {
                fail(name, &attempt, ConnectError::NotReachable("there is no way to that address"))
            }
        }
    }

    fn ask(&mut self, to: SocketAddr, question: Question, errand: Errand) {
        let name = self.card.name();
        match self.resolving(Space::Questions, name, to) {
            Ok(id) => {
                self.roles.insert(name, (Some(id), Role::Asks(question, errand)));
            }
            Err(_) => self.answered(question, errand, None),
        }
    }

    fn answered(&mut self, question: Question, errand: Errand, answer: Option<Answer>) {
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
                    // Its connection has ended; this side is being told.
                    Some(Answer::Heard) => {}
                    None => vi.lost(name),
                }
            }
            (Errand::Key(..), _) => {}
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
            Role::Accepting(vi, theirs, slot) => self.accepting(name, id, (vi, theirs), slot, kind),
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

    /// A queue pair for a VI, which has its receives.
    fn link(
        &self,
        vi: &Arc<ViShared>,
        id: &Id,
        name: u64,
        peer: SocketAddr,
    ) -> Result<Link, Error> {
        let config = &self.card.config;
        let ptag = lock(&vi.core).ptag;
        let cq = Cq::new(&self.card.channel, config.depth * 2 + 2, vi.name)?;
        let size = Size {
            sends: config.depth,
            receives: config.depth,
            segments: config.segments,
            inline: config.inline,
        };
        let pair = Pair::new(&self.card.domain(ptag)?, &cq, size)?;
        pair.start(id)?;
        Ok(Link::new(pair, name, peer, self.card.token(vi)))
    }

    fn requests(
        &mut self,
        name: u64,
        id: Option<Id>,
        attempt: Attempt,
        kind: EventKind,
        said: &[u8],
    ) {
        let Some(id) = id else { return };
        let vi = attempt.vi.clone();
        match kind {
            EventKind::AddressResolved => match id.resolve_route() {
                Ok(()) => drop(self.roles.insert(name, (Some(id), Role::Requests(attempt)))),
                Err(_) => fail(
                    name,
                    &attempt,
                    ConnectError::NotReachable("there is no way to that address"),
                ),
            },
            EventKind::RouteResolved => {
                let link = self.link(&vi, &id, name, attempt.to);
                let core = &mut *lock(&vi.core);
                if core.attempt != Some(name) {
                    return;
                }
                let (number, token) = match link {
                    Ok(link) => {
                        let names = (link.pair.number(), link.own.number());
                        core.link = Some(link);
                        vi.feed_receives(core);
                        names
                    }
                    Err(error) => return refused(&vi, core, system(&error)),
                };
                let hello = Hello {
                    is_peer: attempt.is_peer,
                    attributes: ViAttributes { ptag: None, ..core.attributes },
                    token,
                    port: self.card.at.port(),
                    from: attempt.local.discriminator.clone(),
                    to: attempt.remote.discriminator.clone(),
                };
                match id.connect(&hello.bytes(), self.card.offers.reads, number) {
                    Ok(()) => drop(self.roles.insert(name, (Some(id), Role::Requests(attempt)))),
                    Err(error) => refused(&vi, core, system(&error)),
                }
            }
            EventKind::Response => {
                let core = &mut *lock(&vi.core);
                if core.attempt != Some(name) {
                    return;
                }
                let welcome = Welcome::parse(said);
                let (Some(welcome), Some(link)) = (welcome, core.link.as_mut()) else {
                    return refused(
                        &vi,
                        core,
                        ConnectError::NotReachable("the far side is no NIC of Sovia's"),
                    );
                };
                link.token = welcome.token;
                let connected =
                    link.pair.connect(&id, rights(&core.attributes)).and_then(|()| id.establish());
                if let Err(error) = connected {
                    return refused(&vi, core, system(&error));
                }
                self.roles.insert(name, (Some(id), Role::Connected(Arc::downgrade(&vi))));
                self.watch(&vi);
                vi.connected(core);
                if let Some(slot) = &core.result {
                    slot.put(Ok(welcome.attributes));
                }
            }
            EventKind::Rejected(_) | EventKind::Unreachable => {
                drop(id);
                let error = match Refusal::parse(said) {
                    Some(Refusal::Rejected) => ConnectError::Rejected,
                    Some(Refusal::Reliability) => ConnectError::Reliability,
                    Some(Refusal::MaxTransferSize) => ConnectError::MaxTransferSize,
                    Some(Refusal::Resource) => {
                        ConnectError::NotReachable("the far side is out of resources")
                    }
                    Some(Refusal::NoMatch) => ConnectError::NoMatch,
                    // No program listens there at all.
                    None if matches!(kind, EventKind::Rejected(_)) => ConnectError::NoMatch,
                    None => ConnectError::NotReachable("the far NIC does not answer"),
                };
                let core = &mut *lock(&vi.core);
                if core.attempt != Some(name) {
                    return;
                }
                if attempt.is_peer && error == ConnectError::NoMatch {
                    // It is not there yet.
                    core.link = None;
                    core.recv_restart();
                    self.peers.insert(name, (attempt, Some(Instant::now() + AGAIN)));
                    return;
                }
                refused(&vi, core, error);
            }
            _ => drop(self.roles.insert(name, (Some(id), Role::Requests(attempt)))),
        }
    }

    fn asks(
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

    /// The far side asks a question.
    fn question(&mut self, id: &Id, said: &[u8]) {
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

    /// The far side asks for a connection.
    fn asked(&mut self, id: Id, said: &[u8]) {
        let Some(hello) = Hello::parse(said) else { return id.reject(&Refusal::NoMatch.bytes()) };
        let Some(ip) = id.peer() else { return id.reject(&Refusal::NoMatch.bytes()) };
        let (name, from) = (self.card.name(), SocketAddr::new(ip, hello.port));
        let remote = NetAddress::new(&host(from), &hello.from);
        id.rename(name);
        if hello.is_peer {
            let fits = |(peer, (attempt, _)): (&u64, &(Attempt, _))| {
                let is_it = attempt.local.discriminator == hello.to && attempt.remote == remote;
                is_it.then_some(*peer)
            };
            let Some(peer) = self.peers.iter().find_map(fits) else {
                return id.reject(&Refusal::NoMatch.bytes());
            };
            let Some((attempt, _)) = self.peers.remove(&peer) else { return };
            let attributes = hello.attributes;
            self.roles.insert(name, (Some(id), Role::Asked(hello, from)));
            return self.meet(name, peer, &attempt, &attributes);
        }
        let waiter = {
            let mut waiters = lock(&self.card.waiters);
            let place = waiters.iter().position(|waiter| waiter.discriminator == hello.to);
            place.map(|place| waiters.remove(place))
        };
        let Some(waiter) = waiter else { return id.reject(&Refusal::NoMatch.bytes()) };
        let attributes = hello.attributes;
        self.roles.insert(name, (Some(id), Role::Asked(hello, from)));
        waiter.slot.put(VerbsConnection {
            card: self.card.clone(),
            open: None,
            name,
            remote,
            attributes,
            refusal: Refusal::Rejected,
            is_answered: false,
        });
    }

    /// A peer that was waited for asks.
    fn meet(&mut self, name: u64, peer: u64, attempt: &Attempt, theirs: &ViAttributes) {
        let vi = &attempt.vi;
        let fits = {
            let core = &mut *lock(&vi.core);
            if core.attempt != Some(peer) {
                Err(ConnectError::NoMatch)
            } else {
                let fits = core.attributes.fit(theirs);
                if let Err(error) = &fits {
                    refused(vi, core, error.clone());
                }
                fits
            }
        };
        let refusal = match fits {
            Ok(()) => None,
            Err(ConnectError::Reliability) => Some(Refusal::Reliability),
            Err(ConnectError::MaxTransferSize) => Some(Refusal::MaxTransferSize),
            Err(_) => Some(Refusal::NoMatch),
        };
        if let Some(refusal) = refusal {
            return self.job(Job::Reject { name, refusal });
        }
        if let Err(error) = self.accept_with(name, vi, peer, None) {
            let core = &mut *lock(&vi.core);
            if core.attempt == Some(peer) {
                refused(vi, core, error);
            }
        }
    }

    /// Accepts a request with a VI of the program's.
    fn accept(
        &mut self,
        name: u64,
        vi: &Arc<ViShared>,
        slot: Option<Accepted>,
    ) -> Result<(), ConnectError> {
        let Some((_, Role::Asked(hello, _))) = self.roles.get(&name) else {
            return Err(ConnectError::Timeout);
        };
        {
            let core = &mut *lock(&vi.core);
            core.state.after(Step::Accept)?;
            core.attributes.fit(&hello.attributes)?;
            // So that no other thread connects it meanwhile.
            core.state = ViState::ConnectPending;
            core.attempt = Some(name);
            core.result = None;
        }
        let accepted = self.accept_with(name, vi, name, slot);
        if accepted.is_err() {
            vi.unmade(&mut lock(&vi.core));
        }
        accepted
    }

    /// Accepts a request with a VI whose attempt has that name.
    fn accept_with(
        &mut self,
        name: u64,
        vi: &Arc<ViShared>,
        attempt: u64,
        slot: Option<Accepted>,
    ) -> Result<(), ConnectError> {
        let Some((Some(id), Role::Asked(hello, from))) = self.roles.remove(&name) else {
            return Err(ConnectError::Timeout);
        };
        let link = self.link(vi, &id, name, from);
        let core = &mut *lock(&vi.core);
        if core.attempt != Some(attempt) {
            return Err(ConnectError::Timeout);
        }
        let made = link.and_then(|mut link| {
            link.token = hello.token;
            core.link = Some(link);
            vi.feed_receives(core);
            let Some(link) = &core.link else { return Ok(()) };
            let welcome = Welcome {
                attributes: ViAttributes { ptag: None, ..core.attributes },
                token: link.own.number(),
            };
            link.pair.connect(&id, rights(&core.attributes))?;
            id.accept(&welcome.bytes(), self.card.offers.reads, link.pair.number())
        });
        match made {
            Ok(()) => {
                core.attempt = Some(name);
                let role = Role::Accepting(vi.clone(), hello.attributes, slot);
                self.roles.insert(name, (Some(id), role));
                Ok(())
            }
            Err(Error::Call { call: "rdma_accept", .. }) => Err(ConnectError::Timeout),
            Err(error) => {
                id.reject(&Refusal::Resource.bytes());
                Err(system(&error))
            }
        }
    }

    fn accepting(
        &mut self,
        name: u64,
        id: Option<Id>,
        (vi, theirs): (Arc<ViShared>, ViAttributes),
        slot: Option<Accepted>,
        kind: EventKind,
    ) {
        let outcome = match kind {
            EventKind::Established => Ok(()),
            EventKind::Rejected(_) | EventKind::Unreachable | EventKind::Disconnected => {
                Err(ConnectError::Timeout)
            }
            _ => {
                self.roles.insert(name, (id, Role::Accepting(vi, theirs, slot)));
                return;
            }
        };
        {
            let core = &mut *lock(&vi.core);
            if core.attempt != Some(name) {
                return;
            }
            match &outcome {
                Ok(()) => {
                    self.roles.insert(name, (id, Role::Connected(Arc::downgrade(&vi))));
                    self.watch(&vi);
                    vi.connected(core);
                    if let Some(result) = &core.result {
                        result.put(Ok(theirs));
                    }
                }
                Err(error) => {
                    let error = error.clone();
                    refused(&vi, core, error);
                }
            }
        }
        if let Some(slot) = slot {
            slot.put(outcome);
        }
    }

    /// Ends attempts whose time is over, and asks again; when to look next.
    fn look_at_time(&mut self) -> Option<Instant> {
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

/// The attempt of a VI has come to nothing.
fn fail(name: u64, attempt: &Attempt, error: ConnectError) {
    let core = &mut *lock(&attempt.vi.core);
    if core.attempt == Some(name) {
        refused(&attempt.vi, core, error);
    }
}

/// As [`fail`], of a VI that still has the attempt.
fn refused(vi: &ViShared, core: &mut crate::core::Core, error: ConnectError) {
    vi.unmade(core);
    if let Some(slot) = &core.result {
        slot.put(Err(error));
    }
    vi.news.notify_all();
}

fn rights(attributes: &ViAttributes) -> Rights {
    Rights { write: attributes.enable_rdma_write, read: attributes.enable_rdma_read }
}

fn system(error: &Error) -> ConnectError {
    match error {
        Error::Call { call, .. } => {
            ConnectError::System { call, errno: error.errno().unwrap_or(0) }
        }
        Error::Library(_) => ConnectError::Resource("rdma-core"),
    }
}
