//! How the two ends of a connection find out that both run under Sovia on one host.
//!
//! A meeting costs as much as some transfers over TCP, so how long earlier connections to the same
//! address have lasted decides when it begins (`habit`). If the two processes share a segment
//! already, the connector puts a request with the connection's addresses into its table, and the
//! acceptor, which looks there, takes it (`known`): no system call but the proof of identity. If
//! they do not, they meet first:
//!
//! 1. the connector binds an abstract datagram name made of the connection's addresses;
//! 2. the acceptor says Hello to that name (no socket there: the connection stays on TCP);
//! 3. the connector Asks it to show that it could trace the connector;
//! 4. the acceptor Shows it, and has the connector show the same (`trial`);
//! 5. the connector answers with an Offer: the segment, and its doorbells;
//! 6. the acceptor Accepts with its own doorbells, and takes the request that it finds inside.
//!
//! Where the rules name a NIC in software, each end asks that for a VI instead (`nic`).
//!
//! Any process may bind any name, so no message is believed by itself: before anything is handed over
//! or switched, the speaker's user id, vouched for by the kernel, and the cookie it names are compared
//! with what the kernel knows of the socket at the other end of *this* connection; and memory is
//! shared only by two processes each of which could trace the other by the kernel's own rule.
//! Descriptors go only to the very address that a proven message came from. Everything else is
//! dropped and counted.

mod attach;
pub(crate) mod habit;
mod known;
mod list;
mod nic;
mod offer;
mod proof;
mod trial;
mod why;

pub use habit::Server;

use crate::conn::{Phase, Role, Stage as Approaching};
use crate::message::{Link, Message, Step};
use crate::pair::{self, Progress};
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use crate::{config, family, process, sets, stats};
use attach::{Attached, attach, attach_as_acceptor, find_request};
use core::sync::atomic::Ordering;
use list::List;
use nic::Nics;
use offer::{Answer, Refusal, answer, hear_accept, send_offer, show, take_name_back, take_offer};
pub(crate) use proof::addresses;
use proof::{hear, rendezvous};
use sovia_control::{End, Junk, NicName, Reason};
use sovia_signal::chain::is_in_handler;
use sovia_sync::{Local, RobustBox, RobustLock, rank};
use sovia_sys::datagram::Datagram;
use sovia_sys::{call, clock, fd, trace};
use trial::Trials;

/// Transfers after which an end gives its peer up, if as many nanoseconds have passed as well.
const PATIENCE: u32 = 4096;
const PATIENCE_NS: u64 = 200_000_000;
/// Nanoseconds after which an end tries the other way: another process may have the other end.
const RETRY_NS: u64 = 5_000_000;
/// Transfers of a connector after its request by which the acceptor has looked for one.
const ANSWERED_BY: u32 = 8;
/// Nanoseconds without a step after which a meeting makes room for another one.
const IDLE_NS: u64 = 1_000_000_000;
/// Junk datagrams that one look takes off a socket; more wait for the next look.
const DATAGRAMS: usize = 16;

struct Meeting {
    at: Ref,
    role: Role,
    link: Link,
    stage: Stage,
    begun: u64,
    /// When a call last took a step.
    stepped: u64,
    /// When the present stage was reached.
    since: u64,
    /// After how many transfers the meeting began, or a connector had made its request.
    asked_at: u32,
    /// Why a process that answered has been refused, should no better one answer.
    doubt: Option<Reason>,
}

enum Stage {
    /// Connector: bound to the rendezvous name.
    Bound(Datagram),
    /// Connector: request made.
    Requested { pair: u32, vi: u32 },
    /// Acceptor: looking; whether a Hello has been taken.
    Looking { greeted: bool },
}

struct Meetings {
    list: List,
    inbox: Option<Datagram>,
    trials: Trials,
    nics: Nics,
    owner: i32,
}

per_engine! {
    static MEETINGS_STATE: RobustBox<Meetings, { rank::MEETINGS }> = RobustBox::new(Meetings {
        list: List::new(),
        inbox: None,
        trials: Trials::new(),
        nics: Nics::new(),
        owner: 0,
    });

    /// Steps of connections: one thread at a time takes one for a connection. Another one that comes
    /// meanwhile, or a signal handler, goes on on TCP.
    static STEPS: [RobustLock<Local, { rank::STEP }>; 64] = [const { RobustLock::new() }; 64];
}

/// A candidate is about to send. True if it has been given a VI that it cannot keep: the caller takes
/// it back to TCP.
#[inline]
#[must_use]
pub fn before_send(fd: i32, at: Ref) -> bool {
    let n = at.conn.transfers.load(Ordering::Relaxed);
    is_due(fd, at, n) && step(fd, at, n)
}

/// A candidate has sent.
#[inline]
pub fn sent(at: Ref) {
    at.conn.transfers.fetch_add(1, Ordering::Relaxed);
}

/// A candidate has received. True as for [`before_send`].
#[inline]
#[must_use]
pub fn received(fd: i32, at: Ref) -> bool {
    let n = at.conn.transfers.fetch_add(1, Ordering::Relaxed) + 1;
    is_due(fd, at, n) && step(fd, at, n)
}

/// Whether a candidate is to take a step towards its VI after so many transfers.
fn is_due(fd: i32, at: Ref, n: u32) -> bool {
    let approach = &at.conn.approach;
    if approach.habit.load(Ordering::Acquire) == 0 {
        known::prepare(fd, at);
    }
    // A request costs an acceptor one look, so it looks from the beginning.
    let first = match at.conn.role() {
        Role::Connector => approach.known_after.load(Ordering::Relaxed),
        Role::Acceptor => config::meet_after().unwrap_or(0),
    };
    let Some(since) = n.checked_sub(first) else { return false };
    is_look_due(since)
}

/// Whether an end looks after so many transfers since it began to: each time for a while, then more seldom, for a
/// look is a system call or two. One that sends and receives in turn is asked before each odd transfer, or before
/// each even one.
fn is_look_due(since: u32) -> bool {
    match since {
        0..96 => true,
        96..1024 => since % 16 < 2,
        _ => since % 256 < 2,
    }
}

/// One look at where a candidate's meeting stands. True if it must go back to TCP.
#[cold]
fn step(fd: i32, at: Ref, n: u32) -> bool {
    if is_in_handler() {
        // Threads may have to be started, which takes the program's malloc; the handler may have
        // interrupted that. The next call outside of handlers goes on.
        return false;
    }
    let lock = &STEPS[at.index as usize % STEPS.len()];
    if !lock.try_lock() {
        return false;
    }
    let attached = locked_step(fd, at, n);
    lock.unlock();
    attached == Attached::GoesBack
}

fn locked_step(fd: i32, at: Ref, n: u32) -> Attached {
    // Decided meanwhile by another thread.
    if at.conn.phase() != Phase::Candidate || process::is_changing() {
        return Attached::No;
    }
    if family::is_shared(at.conn) {
        if n >= PATIENCE {
            give_up(at, Reason::SharedByProcesses);
        }
        return Attached::No;
    }
    if config::names_nics()
        && let Some(name) = nic_of(fd, at)
    {
        return step_by_nic(fd, at, n, name);
    }
    let known = match at.conn.role() {
        Role::Connector => known::connector(fd, at, n),
        Role::Acceptor => known::acceptor(fd, at),
    };
    match known {
        known::Step::Done(attached) => {
            if attached != Attached::No {
                // It may have been on its way to a first meeting as well.
                MEETINGS_STATE.with(|meetings| meetings.over(at));
            }
            attached
        }
        known::Step::Unknown if n >= at.conn.approach.unknown_after.load(Ordering::Relaxed) => {
            MEETINGS_STATE.with(|meetings| meetings.step(fd, at, n))
        }
        known::Step::Unknown => Attached::No,
    }
}

fn give_up(at: Ref, reason: Reason) {
    if at.conn.stay_plain() {
        at.conn.count_stay(reason);
    }
}

/// This process's last descriptor of a connection goes, after so many messages sent on the VI. (About as many
/// were received.)
pub(crate) fn ended(at: Ref, messages: u64) {
    known::ended(at, at.conn.transfers.load(Ordering::Relaxed), messages);
}

/// The program is about to shut a side of a candidate.
pub(crate) fn shut(at: Ref) {
    if at.conn.stay_plain() {
        let _ = closed(at);
        ended(at, 0);
        at.conn.count_stay(Reason::HalfClosed);
    }
}

/// A candidate is closed, or stays on TCP: forget its meeting.
/// Returns why it has not met.
pub(crate) fn closed(at: Ref) -> Reason {
    let lock = &STEPS[at.index as usize % STEPS.len()];
    if lock.is_mine() {
        // A signal handler has interrupted a step.
        return Reason::ShortLived;
    }
    lock.lock();
    known::closed(at);
    let begun = at.conn.approach.habit.load(Ordering::Acquire) != 0
        && at.conn.transfers.load(Ordering::Relaxed)
            >= at.conn.approach.unknown_after.load(Ordering::Relaxed);
    let reason = if begun { forget(at) } else { Reason::ShortLived };
    lock.unlock();
    reason
}

/// Returns why the connection has not met.
fn forget(at: Ref) -> Reason {
    MEETINGS_STATE.with(|meetings| {
        if meetings.owner != call::getpid() {
            // A forked child's copy is its parent's business.
            return Reason::ShortLived;
        }
        let Some(i) = meetings.find(at) else { return Reason::ShortLived };
        let reason = meetings.reason(i);
        meetings.end(i);
        reason
    })
}

fn junk(kind: Junk) {
    if let Some(page) = stats::page() {
        page.count_junk(kind);
    }
}

impl Meetings {
    fn find(&self, at: Ref) -> Option<u32> {
        self.list.find(at)
    }

    /// The connection has its VI.
    fn over(&mut self, at: Ref) {
        if let Some(i) = self.find(at) {
            self.list.remove(i);
        }
    }

    /// Makes room for another meeting; false if all are under way. One that no call has taken a step in for
    /// a while, as those of idle connections with a peer that never answers, can begin again.
    fn has_room(&mut self) -> bool {
        if self.list.has_room() {
            return true;
        }
        let now = clock::now_ns();
        let idle = |meeting: &Meeting| {
            matches!(meeting.stage, Stage::Bound(_))
                && now.saturating_sub(meeting.stepped) >= IDLE_NS
        };
        let Some(i) = self.list.position(idle) else { return false };
        self.end(i);
        true
    }

    fn end(&mut self, i: u32) {
        let Some(meeting) = self.list.remove(i) else { return };
        if let Stage::Requested { pair, vi } = meeting.stage
            && let Some(pair) = pair::get(pair)
        {
            pair.abandon(vi);
        }
    }

    /// A forked child begins anew; its parent's names are not its own.
    fn belong_to_this_process(&mut self) {
        let pid = call::getpid();
        if self.owner != pid {
            self.owner = pid;
            self.list.clear();
            self.trials.clear();
            self.nics.clear();
            self.inbox = None;
        }
    }

    fn step(&mut self, fd: i32, at: Ref, n: u32) -> Attached {
        self.belong_to_this_process();
        // Decided meanwhile by another thread.
        if at.conn.phase() != Phase::Candidate || process::is_changing() {
            return Attached::No;
        }
        let Some(i) = self.find(at).or_else(|| self.begin(fd, at)) else { return Attached::No };
        self.list[i].stepped = clock::now_ns();
        let attached = match at.conn.role() {
            Role::Connector => self.step_connector(fd, i),
            Role::Acceptor => self.step_acceptor(fd, i),
        };
        if let Some(i) = self.find(at)
            && n >= PATIENCE
            && clock::now_ns() - self.list[i].begun >= PATIENCE_NS
        {
            self.give_up(i, self.list[i].doubt.unwrap_or(Reason::PeerPlain));
        }
        attached
    }

    /// A process that answered has been refused.
    fn refuse(&mut self, i: u32, refusal: Refusal) {
        match refusal {
            Refusal::Final(reason) => self.give_up(i, reason),
            Refusal::Doubt(reason) => self.list[i].doubt = Some(reason),
        }
    }

    /// Why a meeting has come to nothing so far.
    fn reason(&self, i: u32) -> Reason {
        let meeting = &self.list[i];
        if let Some(doubt) = meeting.doubt {
            return doubt;
        }
        // Too few transfers for the other end to have come so far, however long they took; or there is no
        // page of counters in which to note the reason.
        let transfers = meeting.at.conn.transfers.load(Ordering::Relaxed);
        if transfers.wrapping_sub(meeting.asked_at) < ANSWERED_BY || stats::page().is_none() {
            return Reason::ShortLived;
        }
        why::plain(&meeting.link, meeting.at.conn.role())
    }

    #[inline(never)]
    fn give_up(&mut self, i: u32, reason: Reason) {
        let at = self.list[i].at;
        let reason = match reason {
            Reason::PeerPlain => why::plain(&self.list[i].link, at.conn.role()),
            other => other,
        };
        self.end(i);
        give_up(at, reason);
    }

    #[inline(never)]
    fn begin(&mut self, fd: i32, at: Ref) -> Option<u32> {
        if !fd::can_be_spared() {
            give_up(at, Reason::NoDescriptors);
            return None;
        }
        let link = permitted(fd, at)?;
        if at.conn.is_connector() && !self.has_room() {
            // Those under way may meet the very process that this one is looking for.
            at.conn.approach.reach(Approaching::Idle);
            return None;
        }
        let stage = match at.conn.role() {
            Role::Connector => match request_or_bind(&link) {
                Some(stage) => stage,
                None => {
                    // Another process holds the name.
                    if at.conn.transfers.load(Ordering::Relaxed) >= PATIENCE {
                        give_up(at, Reason::PeerPlain);
                    }
                    return None;
                }
            },
            Role::Acceptor => Stage::Looking { greeted: false },
        };
        let begun = clock::now_ns();
        let transfers = at.conn.transfers.load(Ordering::Relaxed);
        let meeting = Meeting {
            at,
            role: at.conn.role(),
            link,
            stage,
            begun,
            stepped: begun,
            since: begun,
            asked_at: transfers,
            doubt: None,
        };
        // What stood in its place belonged to a connection that is no more.
        self.end(meeting.at.index);
        Some(self.list.insert(meeting))
    }

    // Each for itself: all of them together would take much of the program's stack.
    #[inline(never)]
    fn step_connector(&mut self, fd: i32, i: u32) -> Attached {
        let mut attached = Attached::No;
        let meeting = &mut self.list[i];
        match &meeting.stage {
            Stage::Requested { pair: index, vi } => {
                let (index, vi) = (*index, *vi);
                let Some(pair) = pair::get(index) else { return attached };
                match pair.progress(vi) {
                    Progress::Accepted => {
                        if !pair.has_doors() {
                            hear_accept(index);
                        }
                        if pair.has_doors() {
                            attached = attach(fd, meeting.at, index, vi);
                        }
                        if attached != Attached::No {
                            self.list.remove(i);
                        } else if meeting.at.conn.phase() == Phase::Plain {
                            self.end(i);
                        }
                    }
                    Progress::Gone => {
                        let at = meeting.at;
                        pair.free(vi);
                        self.list.remove(i);
                        give_up(at, Reason::PeerPlain);
                    }
                    Progress::Pending => {
                        if !pair.has_doors() {
                            // Whatever else has come to the name must not fill it.
                            hear_accept(index);
                        }
                        // Another process may have accepted this connection: meet that one. Or our
                        // offer was lost: the name is there still, for another.
                        // Not before the acceptor can have looked, however long that takes: it may
                        // be about to answer the offer, and would answer a name that is not heard.
                        let transfers = meeting.at.conn.transfers.load(Ordering::Relaxed);
                        if transfers.wrapping_sub(meeting.asked_at) >= ANSWERED_BY
                            && clock::now_ns() - meeting.since >= RETRY_NS
                            && pair.withdraw(vi)
                        {
                            let name = take_name_back(index, &meeting.link);
                            meeting.since = clock::now_ns();
                            match name.map(Stage::Bound).or_else(|| bind(&meeting.link)) {
                                Some(stage) => meeting.stage = stage,
                                None => {
                                    self.list.remove(i);
                                }
                            }
                        }
                    }
                }
            }
            Stage::Bound(_) => self.hear_at_name(i),
            Stage::Looking { .. } => {}
        }
        attached
    }

    /// What has come to a connector's name.
    #[inline(never)]
    fn hear_at_name(&mut self, i: u32) {
        let meeting = &mut self.list[i];
        let Stage::Bound(name) = &meeting.stage else { return };
        for _ in 0..DATAGRAMS {
            let Some((message, received)) = hear(name) else { break };
            let answer = answer(name, &meeting.link, &mut self.trials, &message, &received);
            let (stage, shown) = match answer {
                Ok(Answer::Ignored) => continue,
                Ok(Answer::Requested(stage)) => (stage, None),
                Ok(Answer::Offered(stage, shown)) => (stage, Some(shown)),
                Err(refusal) => {
                    self.refuse(i, refusal);
                    break;
                }
            };
            let Stage::Requested { pair, .. } = stage else { break };
            let old = core::mem::replace(&mut meeting.stage, stage);
            meeting.since = clock::now_ns();
            meeting.asked_at = meeting.at.conn.transfers.load(Ordering::Relaxed);
            if let (Stage::Bound(name), Some(pair), Some(shown)) = (old, pair::get(pair), shown) {
                let offer = Message::new(Step::Offer, pair::me(), meeting.link);
                send_offer(&pair, name, &Message { shown, ..offer }, &received);
            }
            break;
        }
    }

    #[inline(never)]
    fn step_acceptor(&mut self, fd: i32, i: u32) -> Attached {
        let at = self.list[i].at;
        self.hear_offers();
        // Unless an offer has put an end to it.
        let Some(i) = self.find(at) else { return Attached::No };
        if let Some((pair, vi)) = find_request(&self.list[i].link) {
            let attached = attach_as_acceptor(fd, at, pair, vi);
            if attached != Attached::No {
                self.list.remove(i);
            }
            return attached;
        }
        self.greet(i);
        Attached::No
    }

    /// An acceptor says where it is, from time to time.
    #[inline(never)]
    fn greet(&mut self, i: u32) {
        let meeting = &mut self.list[i];
        let Stage::Looking { greeted } = meeting.stage else { return };
        if !greeted || clock::now_ns() - meeting.since >= RETRY_NS {
            if self.inbox.is_none() {
                self.inbox = Datagram::bind(None).ok();
            }
            let hello = Message::new(Step::Hello, pair::me(), meeting.link);
            if let (Some(inbox), Some(name)) = (&self.inbox, rendezvous(&meeting.link))
                && inbox.send_to(&name, &hello.encode(), &[]).is_ok()
            {
                meeting.stage = Stage::Looking { greeted: true };
                meeting.since = clock::now_ns();
            }
        }
    }

    /// Takes offers for any connection of this process off the inbox.
    #[inline(never)]
    fn hear_offers(&mut self) {
        let Some(inbox) = &self.inbox else { return };
        for _ in 0..DATAGRAMS {
            let Some((message, received)) = hear(inbox) else { return };
            // A process that has connected to itself has a meeting for each end, and these are for one.
            let known = self.list.position(|meeting| {
                meeting.role == Role::Acceptor && meeting.link.same_connection(&message.link)
            });
            match (message.step, known) {
                (Step::Ask, Some(i)) => {
                    let link = &self.list[i].link;
                    if let Err(refusal) = show(inbox, link, &mut self.trials, &message, &received) {
                        self.refuse(i, refusal);
                        return;
                    }
                }
                (Step::Offer, Some(i)) => {
                    let link = &self.list[i].link;
                    let taken = take_offer(inbox, link, &mut self.trials, &message, received);
                    if let Err(refusal) = taken {
                        self.refuse(i, refusal);
                        return;
                    }
                }
                _ => junk(Junk::Stale),
            }
        }
    }
}

/// Which end of its connection this process has.
fn end_of(at: Ref) -> End {
    match at.conn.role() {
        Role::Connector => End::Connector,
        Role::Acceptor => End::Acceptor,
    }
}

/// Apart, for its stack is not that of every meeting.
#[cold]
#[inline(never)]
fn step_by_nic(fd: i32, at: Ref, n: u32, name: &'static NicName) -> Attached {
    MEETINGS_STATE.with(|meetings| {
        meetings.belong_to_this_process();
        meetings.nics.step(fd, at, n, name)
    })
}

/// The NIC that the rules name for a candidate, if they do.
#[cold]
#[inline(never)]
fn nic_of(fd: i32, at: Ref) -> Option<&'static NicName> {
    let (local, peer) = addresses(fd)?;
    config::nic(end_of(at), local, peer)
}

/// A candidate's addresses and its end's cookie, if it may be accelerated; otherwise it stays on TCP.
fn permitted(fd: i32, at: Ref) -> Option<Link> {
    if !table::is_socket_of(fd, at.conn) {
        give_up(at, Reason::Replaced);
        return None;
    }
    let Some((local, peer)) = addresses(fd) else {
        give_up(at, Reason::NotConnected);
        return None;
    };
    if !call::is_tcp(fd) {
        // The kernel has made another socket of it than the program has asked for (MPTCP).
        give_up(at, Reason::RetreatUlp);
        return None;
    }
    let end = end_of(at);
    let is_local = peer.ip().is_loopback() || peer.ip() == local.ip();
    if !is_local && config::nic(end, local, peer).is_none() {
        give_up(at, Reason::PeerNotLocal);
        return None;
    }
    if !config::allows(end, local, peer) {
        give_up(at, Reason::Rule);
        return None;
    }
    if trace::is_ambiguous(call::geteuid()) {
        give_up(at, Reason::UnknownUser);
        return None;
    }
    if sets::is_nested(at) {
        give_up(at, Reason::RetreatCall);
        return None;
    }
    let cookie = at.conn.cookie.load(Ordering::Relaxed);
    let (connector, acceptor) = match at.conn.role() {
        Role::Connector => (local, peer),
        Role::Acceptor => (peer, local),
    };
    Some(Link { connector, acceptor, cookie })
}

fn bind(link: &Link) -> Option<Stage> {
    let name = Datagram::bind(Some(&rendezvous(link)?)).ok()?;
    Some(Stage::Bound(name))
}

fn request_or_bind(link: &Link) -> Option<Stage> {
    // Those that have their doorbells have been asked already.
    match pair::request_at(link.acceptor, false, &link.encode()) {
        Some(pair::Requested { pair, vi }) => Some(Stage::Requested { pair, vi }),
        None => bind(link),
    }
}

/// Forgets every meeting: nothing has come of them, and what has been asked for is withdrawn.
pub(crate) fn leave_all() {
    // A step that had begun before the change is over now, and later ones do nothing.
    for lock in STEPS.iter() {
        lock.hold();
        lock.release();
    }
    table::for_each_conn(|_, at| {
        if at.conn.phase() == Phase::Candidate {
            known::closed(at);
        }
    });
    MEETINGS_STATE.with(|meetings| {
        // A forked child's copy is its parent's business.
        if meetings.owner == call::getpid() {
            while let Some(i) = meetings.list.any() {
                meetings.end(i);
            }
        }
        meetings.list.clear();
        meetings.trials.clear();
        meetings.nics.clear();
        meetings.inbox = None;
    });
}

/// Around fork: no meeting is in the middle of a step.
pub(crate) fn hold() {
    STEPS.iter().for_each(RobustLock::hold);
    MEETINGS_STATE.hold();
}

/// After fork, in both.
pub(crate) fn release() {
    MEETINGS_STATE.release();
    STEPS.iter().for_each(RobustLock::release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_sends_and_receives_in_turn_goes_on_looking() {
        for first in 0..2 {
            let looks = |from: u32, to: u32| {
                (from + first..to).step_by(2).filter(|&since| is_look_due(since)).count()
            };
            assert_eq!(looks(96, 1024), 58);
            assert_eq!(looks(1024, 1024 + 2560), 10);
        }
    }
}
