//! First rendezvous: the rendezvous of two processes that share no segment yet, or only segments without a free VI.
//!
//! One lock guards every first rendezvous of a process, and the process's connections to NICs and to the agent.

mod acceptor;
mod by_agent;
mod connector;
mod list;

use super::agent::Agent;
use super::attach::Attached;
use super::history::FirstOutcome;
use super::nic::Nics;
use super::offer::{Refusal, receive_accept};
use super::permit::permitted;
use super::proof::trusts;
use super::trial::Trials;
use super::{PATIENCE, abandon, give_up, known, why};
use crate::conn::{ApproachStage, Phase, Role};
use crate::message::{Link, Process};
use crate::per_engine::per_engine;
use crate::table::Ref;
use crate::tcp_reasons::is_local;
use crate::{epoll_sets, pair, process, stats};
pub(super) use acceptor::send_stay;
use by_agent::Introduced;
use connector::request_or_bind;
use core::cell::OnceCell;
use core::sync::atomic::Ordering;
use list::List;
use sovia_control::{NicRule, Reason};
use sovia_signal::chain::is_in_handler;
use sovia_sync::{RobustBox, rank};
use sovia_sys::datagram::Datagram;
use sovia_sys::{Errno, call, clock, fd};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of transfers after which an end stops waiting for the other end's answer. The limit counts transfers, not
/// time, because a peer that gets no processor time cannot answer. The limit is high, because checks for an answer
/// are cheap and become rare.
const ANSWERED_AT_LAST: u32 = 1 << 18;

/// Nanoseconds after which an end repeats an unanswered Hello, or withdraws an unanswered request. Another process
/// may hold the other end by then.
const RETRY_NS: u64 = 5_000_000;

/// Number of transfers that a connector gives the acceptor to find a request.
const ANSWERED_BY: u32 = 8;
/// Maximum number of times that a request's time limit is doubled. Each withdrawn request doubles the time limit of
/// the next request.
const WITHDRAWN_MOST: u32 = 8;

/// Maximum number of exchanges that go on after this process has closed their connections.
const CLOSED_MOST: usize = 8;
/// Maximum number of these exchanges with one process. A later exchange must not end one that has come further.
const CLOSED_OF_ONE: usize = 2;

/// Maximum number of connections that an acceptor remembers after it has closed them.
const GREETED_MOST: usize = 128;

/// An exchange with a process on trial whose connection this process has closed. The exchange goes on for the two
/// processes' later connections. A server may send its whole answer and close before the client has read any of it.
struct Closed {
    process: Process,
    /// The connector's rendezvous name, with the connection; `None` if this process was the acceptor.
    name: Option<(Arc<Datagram>, Link)>,
    /// Index of the pair that was offered from `name`.
    offered: Option<u32>,
    /// Time of the close.
    since: u64,
}

/// Nanoseconds without a step after which a rendezvous may be ended to make room for another rendezvous.
const IDLE_NS: u64 = 1_000_000_000;

struct Rendezvous {
    at: Ref,
    role: Role,
    link: Link,
    stage: RendezvousStage,
    /// Time of the last step of this rendezvous.
    stepped: u64,
    /// Time at which the present stage began, or at which the last Hello was sent.
    since: u64,
    /// The connection's transfer count when the rendezvous began, or when the connector made its request.
    asked_at: u32,
    /// User of the other end; `None` if that user is unknown or is this process's user. The cell is empty until the
    /// kernel has been asked.
    other_user: OnceCell<Option<u32>>,
    /// Set once the kernel has been asked a second time for the other end's user, after [`PATIENCE`] transfers.
    is_checked: bool,
    /// Number of transfers after which this end gives up the rendezvous.
    until: u32,
    /// Number of requests that the connector has withdrawn, up to [`WITHDRAWN_MOST`].
    withdrawn: u32,
    /// Process that must show for this rendezvous that it could trace this process (`trial`).
    trial: Option<Process>,
    /// Reason why this process has refused a process that answered. Reported if no other process gives a better
    /// answer.
    doubt: Option<Reason>,
    /// Set if the other end may be in another network namespace. Then only the agent can find the process with the
    /// other end.
    is_in_other_namespace: bool,
    /// Number of the query that the agent is answering for this rendezvous.
    search: Option<u64>,
    /// Result of the query to the agent, once the agent has found the process with the other end.
    introduced: Option<Introduced>,
}

pub(super) enum RendezvousStage {
    /// The connector waits for messages on `name`: its rendezvous name, or the agent's socket to the process with
    /// the other end. `offered` is the index of a pair that was offered from `name`, if the request in that pair
    /// has been withdrawn. The acceptor may still answer that offer.
    Bound { name: Arc<Datagram>, offered: Option<u32> },
    /// The connector waits for the agent, because only the agent can find the other end.
    AtAgent,
    /// The connector has requested the VI with index `vi` of the pair with index `pair`.
    Requested { pair: u32, vi: u32 },
    /// The acceptor looks for a request. `greeted` is set once the acceptor has sent a Hello.
    Looking { greeted: bool },
}

pub(super) struct RendezvousTable {
    list: List,
    inbox: Option<Datagram>,
    trials: Trials,
    /// Exchanges whose connections this process has closed, the oldest first; at most [`CLOSED_MOST`].
    closed: Vec<Closed>,
    /// Connections that this process has closed as the acceptor, after it had sent Hello; at most [`GREETED_MOST`].
    greeted: VecDeque<Link>,
    nics: Nics,
    agent: Agent,
    owner: i32,
}

per_engine! {
    pub(super) static RENDEZVOUS_TABLE: RobustBox<RendezvousTable, { rank::RENDEZVOUS_TABLE }> = RobustBox::new(RendezvousTable {
        list: List::new(),
        inbox: None,
        trials: Trials::new(),
        closed: Vec::new(),
        greeted: VecDeque::new(),
        nics: Nics::new(),
        agent: Agent::new(),
        owner: 0,
    });
}

/// Takes a step of a rendezvous through a NIC in software. Not inlined, so that other steps need no stack space for
/// this function.
#[cold]
#[inline(never)]
pub(super) fn step_by_nic(fd: i32, at: Ref, n: u32, rule: NicRule<'static>) -> Attached {
    RENDEZVOUS_TABLE.with(|table| {
        table.belong_to_this_process();
        table.nics.step(fd, at, n, rule)
    })
}

/// Ends the connection's rendezvous. Returns why the connection got no VI.
pub(super) fn forget(at: Ref) -> Reason {
    RENDEZVOUS_TABLE.with(|table| {
        if table.owner != call::getpid() {
            // This process is a forked child with a copy of its parent's list. The parent ends the rendezvous
            // itself.
            return Reason::ShortLived;
        }
        let Some(i) = table.find(at) else { return Reason::ShortLived };
        let reason = table.reason(i);
        table.close(at, i);
        reason
    })
}

impl Rendezvous {
    /// Returns why the other end has not answered.
    fn why_plain(&self) -> Reason {
        match self.other_user.get() {
            Some(&Some(user)) => why::other_user(user),
            _ => why::plain(&self.link, self.at.conn.role()),
        }
    }

    /// Returns true if the rules do not trust the user of the other end. Messages of that user's processes are
    /// ignored. Only the first call asks the kernel.
    fn is_refused(&self) -> bool {
        let user = self.other_user.get_or_init(|| why::user_of_other_end(&self.link, self.role));
        user.is_some_and(|uid| !trusts(&self.link, self.role, Some(uid)))
    }

    /// Asks the kernel a second time for the user of the other end, after [`PATIENCE`] transfers. At first the
    /// other end may have had no user, because no process had accepted the connection yet. Returns true if the
    /// rules do not trust the user.
    fn is_refused_after_all(&mut self, n: u32) -> bool {
        if self.is_checked || n < PATIENCE {
            return false;
        }
        self.is_checked = true;
        self.other_user = OnceCell::new();
        self.is_refused()
    }

    /// Records that the two processes have exchanged a message, so that this end soon looks for the next message.
    fn note_message(&self) {
        let conn = self.at.conn;
        conn.approach.note_message(conn.transfers.load(Ordering::Relaxed));
    }
}

impl RendezvousTable {
    fn find(&self, at: Ref) -> Option<u32> {
        self.list.find(at)
    }

    /// Ends the first rendezvous of a connection that now has a VI.
    pub(super) fn over(&mut self, at: Ref) {
        if let Some(i) = self.find(at) {
            self.end(i);
            known::note_first(at, FirstOutcome::Met);
        }
    }

    /// Ends a rendezvous whose connection this process has closed. The exchange with a process on trial goes on.
    fn close(&mut self, at: Ref, mut i: u32) {
        if matches!(self.list[i].stage, RendezvousStage::Looking { greeted: true }) {
            if !is_in_handler() {
                // A client has often received a part of a long answer by the time the server closes, and so has answered
                // the Hello.
                self.receive_offers();
                let Some(still) = self.find(at) else { return };
                i = still;
            }
            self.greeted.truncate(GREETED_MOST - 1);
            self.greeted.push_front(self.list[i].link);
        }
        let rendezvous = &self.list[i];
        let (name, offered) = match &rendezvous.stage {
            RendezvousStage::Bound { name, offered } => {
                (Some((name.clone(), rendezvous.link)), *offered)
            }
            _ => (None, None),
        };
        if rendezvous.role == Role::Connector {
            // An acceptor does not defer its next Hello: a Hello costs little, and nothing if no connector waits for it.
            known::note_first(rendezvous.at, FirstOutcome::Unfinished);
        }
        if let Some(process) = rendezvous.trial
            && (name.is_some() || rendezvous.role == Role::Acceptor)
        {
            self.go_on_after_close(Closed { process, name, offered, since: clock::now_ns() });
        }
        self.end(i);
    }

    /// Removes a rendezvous from the list and returns it. Cancels the rendezvous's query to the agent, and leaves
    /// its trial.
    fn remove(&mut self, i: u32) -> Option<Rendezvous> {
        let rendezvous = self.list.remove(i)?;
        if let Some(search) = rendezvous.search {
            self.agent.forget(search);
        }
        self.leave_trial(rendezvous.trial);
        Some(rendezvous)
    }

    /// Records `process` as the process on trial for rendezvous `i`, in place of an earlier process.
    fn tries(&mut self, i: u32, process: Process) {
        let before = self.list[i].trial.replace(process);
        if before != Some(process) {
            self.leave_trial(before);
        }
    }

    /// Continues an exchange after its connection has been closed, unless enough exchanges with the process go on.
    fn go_on_after_close(&mut self, closed: Closed) {
        let same = |of: &&Closed| {
            of.process == closed.process && of.name.is_some() == closed.name.is_some()
        };
        let most = if closed.name.is_some() { CLOSED_OF_ONE } else { 1 };
        if self.closed.iter().filter(same).count() < most {
            self.closed.push(closed);
        }
        if self.closed.len() > CLOSED_MOST {
            self.end_oldest_after_close();
        }
    }

    /// Ends exchanges that have gone on for [`IDLE_NS`] after a close. The peer may have taken no step since then, and
    /// new connections must not wait for the peer.
    fn end_old_after_close(&mut self) {
        let now = clock::now_ns();
        while let Some(oldest) = self.closed.first()
            && now.saturating_sub(oldest.since) >= IDLE_NS
        {
            self.end_oldest_after_close();
        }
    }

    fn end_oldest_after_close(&mut self) {
        let closed = self.closed.remove(0);
        self.leave_trial(Some(closed.process));
        self.leave_unanswered();
    }

    /// Ends the exchanges with a process whose connections this process has closed.
    fn over_after_close(&mut self, process: Process) {
        self.closed.retain(|of| of.process != process);
        self.leave_trial(Some(process));
    }

    /// Ends a process's trial if no rendezvous needs it.
    fn leave_trial(&mut self, process: Option<Process>) {
        if let Some(process) = process
            && self.closed.iter().all(|of| of.process != process)
            && self.list.position(|rendezvous| rendezvous.trial == Some(process)).is_none()
        {
            self.trials.over(process);
        }
    }

    /// Makes room for another rendezvous. Returns false if there is no room. If the list is full, ends a rendezvous
    /// that has taken no step for [`IDLE_NS`]. The connection of the ended rendezvous can begin again.
    fn has_room(&mut self) -> bool {
        if self.list.has_room() {
            return true;
        }
        let now = clock::now_ns();
        let idle = |rendezvous: &Rendezvous| {
            matches!(rendezvous.stage, RendezvousStage::Bound { .. } | RendezvousStage::AtAgent)
                && now.saturating_sub(rendezvous.stepped) >= IDLE_NS
        };
        let Some(i) = self.list.position(idle) else { return false };
        self.end(i);
        true
    }

    /// Ends every first rendezvous, and closes the connections to NICs and to the agent.
    pub(super) fn leave_all(&mut self) {
        // A forked child only clears its copy of the list. Its parent still uses the rendezvous in the list.
        if self.owner == call::getpid() {
            self.closed.clear();
            while let Some(i) = self.list.any() {
                self.end(i);
            }
            self.leave_unanswered();
        }
        self.clear();
    }

    /// Forgets everything, and closes all sockets.
    fn clear(&mut self) {
        self.list.clear();
        self.trials.clear();
        self.closed.clear();
        self.greeted.clear();
        self.nics.clear();
        self.agent.clear();
        self.inbox = None;
    }

    fn end(&mut self, i: u32) {
        let Some(rendezvous) = self.remove(i) else { return };
        if let RendezvousStage::Requested { pair, vi } = rendezvous.stage {
            abandon(pair, vi);
        }
        self.leave_unanswered();
    }

    /// Removes each pair that is on offer, if neither a connection nor an exchange after a close waits for the peer's
    /// answer to the offer.
    ///
    /// The peer may have taken the segment of such a pair, and sent its answer to a name that is now closed. The
    /// peer would then accept further requests in this segment, and the requesting connections would wait for the
    /// lost answer without end.
    #[inline(never)]
    fn leave_unanswered(&self) {
        let mut unanswered = Vec::new();
        pair::each(|index, pair| {
            if pair.is_on_offer() && !pair.has_requests() {
                unanswered.push(index);
            }
        });
        for index in unanswered {
            let is_waiting = |rendezvous: &Rendezvous| matches!(rendezvous.stage, RendezvousStage::Bound { offered: Some(pair), .. } if pair == index);
            let is_going_on = self.closed.iter().any(|of| of.offered == Some(index));
            if !is_going_on && self.list.position(is_waiting).is_none() {
                receive_accept(index);
                pair::leave_unanswered(index, epoll_sets::forget_pair);
            }
        }
    }

    /// Clears the state if this process is a forked child, because the names and sockets belong to its parent.
    fn belong_to_this_process(&mut self) {
        let pid = call::getpid();
        if self.owner != pid {
            self.owner = pid;
            self.clear();
        }
    }

    pub(super) fn step(&mut self, fd: i32, at: Ref, n: u32) -> Attached {
        self.belong_to_this_process();
        // Before this thread took the lock, another thread may have attached or given up the connection.
        if at.conn.phase() != Phase::Eligible || process::is_changing() {
            return Attached::No;
        }
        let Some(i) = self.find(at).or_else(|| self.begin(fd, at)) else { return Attached::No };
        self.list[i].stepped = clock::now_ns();
        self.step_by_agent(i);
        let Some(i) = self.find(at) else { return Attached::No };
        let attached = match at.conn.role() {
            Role::Connector => {
                self.end_old_after_close();
                self.receive_after_close();
                self.step_connector(fd, i)
            }
            Role::Acceptor => self.step_acceptor(fd, i),
        };
        if attached == Attached::Yes {
            known::note_first(at, FirstOutcome::Met);
        }
        if let Some(i) = self.find(at)
            && (n >= self.list[i].until || self.list[i].is_refused_after_all(n))
        {
            self.give_up(i, self.list[i].doubt.unwrap_or(Reason::PeerPlain));
        }
        attached
    }

    /// Handles the refusal of a process that has answered: gives up the rendezvous, or records the reason as a
    /// doubt.
    fn refuse(&mut self, i: u32, refusal: Refusal) {
        match refusal {
            Refusal::Final(reason) => self.give_up(i, reason),
            Refusal::Doubt(reason) => {
                self.list[i].doubt = Some(reason);
                self.list[i].at.conn.show_doubt(reason);
            }
        }
    }

    /// Returns the reason why rendezvous `i` has had no result so far.
    fn reason(&self, i: u32) -> Reason {
        let rendezvous = &self.list[i];
        if let Some(doubt) = rendezvous.doubt {
            return doubt;
        }
        // With fewer than [`ANSWERED_BY`] transfers, the other end had no chance to answer. An end on trial has answered.
        // Without a page of counters, the exact reason is not recorded, so there is no need to ask the kernel for the
        // reason.
        let transfers = rendezvous.at.conn.transfers.load(Ordering::Relaxed);
        if rendezvous.trial.is_some()
            || transfers.wrapping_sub(rendezvous.asked_at) < ANSWERED_BY
            || !stats::is_asked_for()
        {
            return Reason::ShortLived;
        }
        rendezvous.why_plain()
    }

    #[inline(never)]
    fn give_up(&mut self, i: u32, reason: Reason) {
        let at = self.list[i].at;
        let reason = match reason {
            Reason::PeerPlain => self.list[i].why_plain(),
            other => other,
        };
        if reason == Reason::OtherUser {
            known::note_first(at, FirstOutcome::Refused);
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
            // Search the known segments again later: another rendezvous may yield a segment with the process that
            // holds the other end.
            at.conn.approach.reach(ApproachStage::Idle);
            return None;
        }
        let is_in_other_namespace = !is_local(link.connector, link.acceptor);
        let stage = match at.conn.role() {
            Role::Connector if is_in_other_namespace => RendezvousStage::AtAgent,
            Role::Connector => match request_or_bind(&link) {
                Ok(stage) => stage,
                Err(Errno::EMFILE) => {
                    give_up(at, Reason::NoDescriptors);
                    return None;
                }
                Err(_) => {
                    // Another process has bound the rendezvous name.
                    if at.conn.transfers.load(Ordering::Relaxed) >= PATIENCE {
                        give_up(at, Reason::PeerPlain);
                    }
                    return None;
                }
            },
            Role::Acceptor => RendezvousStage::Looking { greeted: false },
        };
        let now = clock::now_ns();
        let transfers = at.conn.transfers.load(Ordering::Relaxed);
        let rendezvous = Rendezvous {
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
            is_in_other_namespace,
            search: None,
            introduced: None,
        };
        // Remove an old entry at this connection's index, which belongs to a connection that has ended.
        self.end(rendezvous.at.index);
        Some(self.list.insert(rendezvous))
    }
}
