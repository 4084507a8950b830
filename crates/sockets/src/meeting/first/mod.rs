//! First rendezvous: of processes that share no segment yet, or only segments without a free VI.
//!
//! One lock guards every first rendezvous of a process, and the process's connections to NICs and to the agent.

mod acceptor;
mod by_agent;
mod connector;
mod list;

use super::agent::Agent;
use super::attach::Attached;
use super::nic::Nics;
use super::offer::{Refusal, hear_accept};
use super::permit::permitted;
use super::proof::trusts;
use super::trial::Trials;
use super::{PATIENCE, give_up, known, why};
use crate::conn::{Phase, Role, Stage as Approaching};
use crate::kept::is_local;
use crate::message::{Link, Process};
use crate::per_engine::per_engine;
use crate::table::Ref;
use crate::{pair, process, sets, stats};
pub(super) use acceptor::send_stay;
use by_agent::Introduced;
use connector::request_or_bind;
use core::cell::OnceCell;
use core::sync::atomic::Ordering;
use list::List;
use sovia_control::{NicName, Reason};
use sovia_sync::{RobustBox, rank};
use sovia_sys::datagram::Datagram;
use sovia_sys::{Errno, call, clock, fd};
use std::sync::Arc;

/// Number of transfers after which an end gives up a peer that has not answered. The limit is not a time: a peer that
/// gets no processor has not looked yet. A check costs less than a transfer, and late checks are rare.
const ANSWERED_AT_LAST: u32 = 1 << 18;

/// Nanoseconds after which an end tries again: another process may hold the other end by now.
const RETRY_NS: u64 = 5_000_000;

/// Number of transfers after its request within which a connector expects the acceptor to have looked for requests.
const ANSWERED_BY: u32 = 8;
/// Maximum number of doublings. Each withdrawn request doubles the time that the next request gets.
const WITHDRAWN_MOST: u32 = 8;

/// Nanoseconds without a step after which a rendezvous makes room for another one.
const IDLE_NS: u64 = 1_000_000_000;

struct Meeting {
    at: Ref,
    role: Role,
    link: Link,
    stage: Stage,
    /// Time of the last step that a call took.
    stepped: u64,
    /// Time at which the present stage began, or of the last Hello.
    since: u64,
    /// Number of transfers at the start of the rendezvous, or at the connector's request.
    asked_at: u32,
    /// User of the other end, if that is another user. Empty until the kernel has been asked.
    other_user: OnceCell<Option<u32>>,
    /// Set once the kernel has been asked again, after [`PATIENCE`] transfers.
    is_checked: bool,
    /// Number of transfers after which the end gives up.
    until: u32,
    /// Number of requests that the connector has withdrawn, up to [`WITHDRAWN_MOST`].
    withdrawn: u32,
    /// Process on trial for this rendezvous.
    trial: Option<Process>,
    /// Reason for which a process that answered was refused. Reported if no better process answers.
    doubt: Option<Reason>,
    /// Set if the other end may be in another network namespace: then only the agent can find it.
    is_far: bool,
    /// Number of the query that the agent is answering for this rendezvous.
    search: Option<u64>,
    /// Result of the query, once the agent has found the other end.
    introduced: Option<Introduced>,
}

pub(super) enum Stage {
    /// Connector: bound to the rendezvous name, or to the agent's socket to the process with the other end. `offered`
    /// is a pair that was offered from the name, with a request that has been withdrawn since. The answer to that
    /// offer may still come. Other connections that wait for the answer find the name with the pair.
    Bound { name: Arc<Datagram>, offered: Option<u32> },
    /// Connector: only the agent can find the other end.
    Far,
    /// Connector: has requested this VI of this pair.
    Requested { pair: u32, vi: u32 },
    /// Acceptor: looks for a request. `greeted` is set once a Hello has been sent.
    Looking { greeted: bool },
}

pub(super) struct Meetings {
    list: List,
    inbox: Option<Datagram>,
    trials: Trials,
    nics: Nics,
    agent: Agent,
    owner: i32,
}

per_engine! {
    pub(super) static MEETINGS_STATE: RobustBox<Meetings, { rank::MEETINGS }> = RobustBox::new(Meetings {
        list: List::new(),
        inbox: None,
        trials: Trials::new(),
        nics: Nics::new(),
        agent: Agent::new(),
        owner: 0,
    });
}

/// Takes a step of a rendezvous by a NIC. Not inlined, so that other steps do not use its stack.
#[cold]
#[inline(never)]
pub(super) fn step_by_nic(fd: i32, at: Ref, n: u32, name: &'static NicName) -> Attached {
    MEETINGS_STATE.with(|meetings| {
        meetings.belong_to_this_process();
        meetings.nics.step(fd, at, n, name)
    })
}

/// Ends the connection's rendezvous. Returns why the connection got no VI.
pub(super) fn forget(at: Ref) -> Reason {
    MEETINGS_STATE.with(|meetings| {
        if meetings.owner != call::getpid() {
            // This is a forked child's copy of the list. The parent ends its own rendezvous.
            return Reason::ShortLived;
        }
        let Some(i) = meetings.find(at) else { return Reason::ShortLived };
        let reason = meetings.reason(i);
        meetings.end(i);
        reason
    })
}

impl Meeting {
    /// Returns why the other end has not answered.
    fn why_plain(&self) -> Reason {
        match self.other_user.get() {
            Some(&Some(user)) => why::other_user(user),
            _ => why::plain(&self.link, self.at.conn.role()),
        }
    }

    /// Returns true if the rules do not trust the user of the other end. Messages of that user's processes are
    /// ignored. Asks the kernel once.
    fn is_refused(&self) -> bool {
        let user = self.other_user.get_or_init(|| why::user_of_other_end(&self.link, self.role));
        user.is_some_and(|uid| !trusts(&self.link, self.role, Some(uid)))
    }

    /// Asks the kernel again after [`PATIENCE`] transfers. An end that had not been accepted before may have a user
    /// now.
    fn is_refused_after_all(&mut self, n: u32) -> bool {
        if self.is_checked || n < PATIENCE {
            return false;
        }
        self.is_checked = true;
        self.other_user = OnceCell::new();
        self.is_refused()
    }

    /// Notes that the two processes have exchanged a message.
    fn note_message(&self) {
        let conn = self.at.conn;
        conn.approach.note_message(conn.transfers.load(Ordering::Relaxed));
    }
}

impl Meetings {
    fn find(&self, at: Ref) -> Option<u32> {
        self.list.find(at)
    }

    /// Ends the rendezvous of a connection that has its VI.
    pub(super) fn over(&mut self, at: Ref) {
        if let Some(i) = self.find(at) {
            self.end(i);
            known::note_first(at, false);
        }
    }

    /// Takes a rendezvous off the list.
    fn remove(&mut self, i: u32) -> Option<Meeting> {
        let meeting = self.list.remove(i)?;
        if let Some(search) = meeting.search {
            self.agent.forget(search);
        }
        self.leave_trial(meeting.trial);
        Some(meeting)
    }

    /// Records the process that is on trial for a rendezvous, in place of an earlier one.
    fn tries(&mut self, i: u32, process: Process) {
        let before = self.list[i].trial.replace(process);
        if before != Some(process) {
            self.leave_trial(before);
        }
    }

    /// Ends a process's trial if no rendezvous needs it.
    fn leave_trial(&mut self, process: Option<Process>) {
        if let Some(process) = process
            && self.list.position(|meeting| meeting.trial == Some(process)).is_none()
        {
            self.trials.over(process);
        }
    }

    /// Makes room for another rendezvous. Returns false if there is none. An idle connection whose peer never answers
    /// loses its rendezvous, and can begin again.
    fn has_room(&mut self) -> bool {
        if self.list.has_room() {
            return true;
        }
        let now = clock::now_ns();
        let idle = |meeting: &Meeting| {
            matches!(meeting.stage, Stage::Bound { .. } | Stage::Far)
                && now.saturating_sub(meeting.stepped) >= IDLE_NS
        };
        let Some(i) = self.list.position(idle) else { return false };
        self.end(i);
        true
    }

    /// Ends every first rendezvous. Forgets the NICs and the agent.
    pub(super) fn leave_all(&mut self) {
        // A forked child has a copy of the list. The parent ends its own rendezvous.
        if self.owner == call::getpid() {
            while let Some(i) = self.list.any() {
                self.end(i);
            }
        }
        self.list.clear();
        self.trials.clear();
        self.nics.clear();
        self.agent.clear();
        self.inbox = None;
    }

    fn end(&mut self, i: u32) {
        let Some(meeting) = self.remove(i) else { return };
        if let Stage::Requested { pair, vi } = meeting.stage
            && let Some(pair) = pair::get(pair)
        {
            pair.abandon(vi);
        }
        self.leave_unanswered();
    }

    /// Leaves the pairs on offer that no connection waits for.
    ///
    /// The peer may have taken such a pair, and its answer may have come to a name that is closed. The peer would
    /// accept further requests in that pair. Their connections would wait for that answer without end.
    #[inline(never)]
    fn leave_unanswered(&self) {
        let mut unanswered = Vec::new();
        pair::each(|index, pair| {
            if pair.is_on_offer() && !pair.has_requests() {
                unanswered.push(index);
            }
        });
        for index in unanswered {
            let is_waiting = |meeting: &Meeting| matches!(meeting.stage, Stage::Bound { offered: Some(pair), .. } if pair == index);
            if self.list.position(is_waiting).is_none() {
                hear_accept(index);
                pair::leave_unanswered(index, sets::forget_pair);
            }
        }
    }

    /// Clears the state in a forked child: the names and sockets are its parent's.
    fn belong_to_this_process(&mut self) {
        let pid = call::getpid();
        if self.owner != pid {
            self.owner = pid;
            self.list.clear();
            self.trials.clear();
            self.nics.clear();
            self.agent.clear();
            self.inbox = None;
        }
    }

    pub(super) fn step(&mut self, fd: i32, at: Ref, n: u32) -> Attached {
        self.belong_to_this_process();
        // Another thread may have decided the connection before this thread took the lock.
        if at.conn.phase() != Phase::Candidate || process::is_changing() {
            return Attached::No;
        }
        let Some(i) = self.find(at).or_else(|| self.begin(fd, at)) else { return Attached::No };
        self.list[i].stepped = clock::now_ns();
        self.step_by_agent(i);
        let Some(i) = self.find(at) else { return Attached::No };
        let attached = match at.conn.role() {
            Role::Connector => self.step_connector(fd, i),
            Role::Acceptor => self.step_acceptor(fd, i),
        };
        if attached == Attached::Yes {
            known::note_first(at, false);
        }
        if let Some(i) = self.find(at)
            && (n >= self.list[i].until || self.list[i].is_refused_after_all(n))
        {
            self.give_up(i, self.list[i].doubt.unwrap_or(Reason::PeerPlain));
        }
        attached
    }

    /// Handles the refusal of a process that answered.
    fn refuse(&mut self, i: u32, refusal: Refusal) {
        match refusal {
            Refusal::Final(reason) => self.give_up(i, reason),
            Refusal::Doubt(reason) => {
                self.list[i].doubt = Some(reason);
                self.list[i].at.conn.show_doubt(reason);
            }
        }
    }

    /// Returns why a rendezvous has had no result so far.
    fn reason(&self, i: u32) -> Reason {
        let meeting = &self.list[i];
        if let Some(doubt) = meeting.doubt {
            return doubt;
        }
        // Either there were too few transfers for the other end to answer, however long they took. Or there is no
        // page of counters in which to note a reason.
        let transfers = meeting.at.conn.transfers.load(Ordering::Relaxed);
        if transfers.wrapping_sub(meeting.asked_at) < ANSWERED_BY || !stats::is_asked_for() {
            return Reason::ShortLived;
        }
        meeting.why_plain()
    }

    #[inline(never)]
    fn give_up(&mut self, i: u32, reason: Reason) {
        let at = self.list[i].at;
        let reason = match reason {
            Reason::PeerPlain => self.list[i].why_plain(),
            other => other,
        };
        if reason == Reason::OtherUser {
            known::note_first(at, true);
        }
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
            // A rendezvous under way may reach the process that this connection needs.
            at.conn.approach.reach(Approaching::Idle);
            return None;
        }
        let is_far = !is_local(link.connector, link.acceptor);
        let stage = match at.conn.role() {
            Role::Connector if is_far => Stage::Far,
            Role::Connector => match request_or_bind(&link) {
                Ok(stage) => stage,
                Err(Errno::EMFILE) => {
                    give_up(at, Reason::NoDescriptors);
                    return None;
                }
                Err(_) => {
                    // Another process holds the name.
                    if at.conn.transfers.load(Ordering::Relaxed) >= PATIENCE {
                        give_up(at, Reason::PeerPlain);
                    }
                    return None;
                }
            },
            Role::Acceptor => Stage::Looking { greeted: false },
        };
        let now = clock::now_ns();
        let transfers = at.conn.transfers.load(Ordering::Relaxed);
        let meeting = Meeting {
            at,
            role: at.conn.role(),
            link,
            stage,
            stepped: now,
            since: now,
            asked_at: transfers,
            until: ANSWERED_AT_LAST,
            other_user: OnceCell::new(),
            is_checked: false,
            withdrawn: 0,
            trial: None,
            doubt: None,
            is_far,
            search: None,
            introduced: None,
        };
        // An entry with this index belongs to a connection that has ended.
        self.end(meeting.at.index);
        Some(self.list.insert(meeting))
    }
}
