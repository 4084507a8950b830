//! First meetings: of processes that share no segment yet, or none with room.
//!
//! All that are under way in a process are behind one lock, and so is what it knows of its NICs.

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

/// Transfers after which an end gives up a peer that has not answered. Not the time decides: a peer that gets no processor
/// meanwhile has not looked yet. A look costs less than a transfer, and the later ones are seldom.
const ANSWERED_AT_LAST: u32 = 1 << 18;

/// Nanoseconds after which an end tries the other way: another process may have the other end.
const RETRY_NS: u64 = 5_000_000;

/// Transfers of a connector after its request by which the acceptor has looked for one.
const ANSWERED_BY: u32 = 8;
/// Each withdrawn request doubles what the next one gets, at most so often.
const WITHDRAWN_MOST: u32 = 8;

/// Nanoseconds without a step after which a meeting makes room for another one.
const IDLE_NS: u64 = 1_000_000_000;

struct Meeting {
    at: Ref,
    role: Role,
    link: Link,
    stage: Stage,
    /// When a call last took a step.
    stepped: u64,
    /// When the present stage was reached.
    since: u64,
    /// After how many transfers the meeting began, or a connector had made its request.
    asked_at: u32,
    /// The user who has the other end, if that is not this process's, as far as it has been asked.
    other_user: OnceCell<Option<u32>>,
    /// Whether the kernel has been asked once more, after [`PATIENCE`] transfers.
    is_checked: bool,
    /// After how many transfers the end gives up.
    until: u32,
    /// How many requests a connector has withdrawn, as far as it counts.
    withdrawn: u32,
    /// The process that is on trial for this meeting.
    trial: Option<Process>,
    /// Why a process that answered has been refused, should no better one answer.
    doubt: Option<Reason>,
    /// Whether the other end is in another network namespace, if it is on this host: only the agent can find it.
    is_far: bool,
    /// The agent seeks the other end, by this number.
    search: Option<u64>,
    /// The agent has found it.
    introduced: Option<Introduced>,
}

pub(super) enum Stage {
    /// Connector: bound to the rendezvous name; the pair that was offered from it with a request that has been
    /// withdrawn since. The answer to that offer may still come. Other connections that wait for it find the name with the pair.
    /// Or, once the agent has found it, with a socket to the process with the other end in the place of the name.
    Bound { name: Arc<Datagram>, offered: Option<u32> },
    /// Connector: only the agent can find the other end.
    Far,
    /// Connector: request made.
    Requested { pair: u32, vi: u32 },
    /// Acceptor: looking; whether a Hello has been taken.
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

/// Apart, for its stack is not that of every meeting.
#[cold]
#[inline(never)]
pub(super) fn step_by_nic(fd: i32, at: Ref, n: u32, name: &'static NicName) -> Attached {
    MEETINGS_STATE.with(|meetings| {
        meetings.belong_to_this_process();
        meetings.nics.step(fd, at, n, name)
    })
}

/// Returns why the connection has not met.
pub(super) fn forget(at: Ref) -> Reason {
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

impl Meeting {
    /// Why the other end has not answered.
    fn why_plain(&self) -> Reason {
        match self.other_user.get() {
            Some(&Some(user)) => why::other_user(user),
            _ => why::plain(&self.link, self.at.conn.role()),
        }
    }

    /// Returns true if a user has the other end whom the rules do not trust. Nothing that user's
    /// processes say is believed. The kernel is asked once.
    fn is_refused(&self) -> bool {
        let user = self.other_user.get_or_init(|| why::user_of_other_end(&self.link, self.role));
        user.is_some_and(|uid| !trusts(&self.link, self.role, Some(uid)))
    }

    /// Asks once more after [`PATIENCE`] transfers: an end that had not been accepted before may have its user now.
    fn is_refused_after_all(&mut self, n: u32) -> bool {
        if self.is_checked || n < PATIENCE {
            return false;
        }
        self.is_checked = true;
        self.other_user = OnceCell::new();
        self.is_refused()
    }

    /// A message has gone between the two processes.
    fn note_message(&self) {
        let conn = self.at.conn;
        conn.approach.note_message(conn.transfers.load(Ordering::Relaxed));
    }
}

impl Meetings {
    fn find(&self, at: Ref) -> Option<u32> {
        self.list.find(at)
    }

    /// The connection has its VI.
    pub(super) fn over(&mut self, at: Ref) {
        if let Some(i) = self.find(at) {
            self.end(i);
            known::note_first(at, false);
        }
    }

    /// Takes a meeting off the list.
    fn remove(&mut self, i: u32) -> Option<Meeting> {
        let meeting = self.list.remove(i)?;
        if let Some(search) = meeting.search {
            self.agent.forget(search);
        }
        self.leave_trial(meeting.trial);
        Some(meeting)
    }

    /// A process is on trial for a meeting, and no other one is any more.
    fn tries(&mut self, i: u32, process: Process) {
        let before = self.list[i].trial.replace(process);
        if before != Some(process) {
            self.leave_trial(before);
        }
    }

    /// Ends a process's trial if no meeting wants it.
    fn leave_trial(&mut self, process: Option<Process>) {
        if let Some(process) = process
            && self.list.position(|meeting| meeting.trial == Some(process)).is_none()
        {
            self.trials.over(process);
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
            matches!(meeting.stage, Stage::Bound { .. } | Stage::Far)
                && now.saturating_sub(meeting.stepped) >= IDLE_NS
        };
        let Some(i) = self.list.position(idle) else { return false };
        self.end(i);
        true
    }

    /// Forgets all of them, and what the process knows of its NICs.
    pub(super) fn leave_all(&mut self) {
        // A forked child's copy is its parent's business.
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

    /// Leaves the pairs on offer that no connection waits for any more.
    ///
    /// The peer may have taken such a pair, and its answer may have come to a name that is closed. It would accept further requests
    /// there, and their connections would wait for that answer.
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

    /// A forked child begins anew; its parent's names are not its own.
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
        // Decided meanwhile by another thread.
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

    /// A process that answered has been refused.
    fn refuse(&mut self, i: u32, refusal: Refusal) {
        match refusal {
            Refusal::Final(reason) => self.give_up(i, reason),
            Refusal::Doubt(reason) => {
                self.list[i].doubt = Some(reason);
                self.list[i].at.conn.show_doubt(reason);
            }
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
            // Those under way may meet the very process that this one is looking for.
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
        // What stood in its place belonged to a connection that is no more.
        self.end(meeting.at.index);
        Some(self.list.insert(meeting))
    }
}
