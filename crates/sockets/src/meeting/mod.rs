//! How the two ends of a connection find out that both run under Sovia on one host.
//!
//! A meeting costs as much as some transfers over TCP, so how long earlier connections to the same
//! address have lasted decides when it begins (`history`). If the two processes share a segment
//! already, the connector puts a request with the connection's addresses into its table, and the
//! acceptor, which looks there, takes it (`known`): no system call but the proof of identity. If
//! they do not, they meet first (`first`):
//!
//! 1. the connector binds an abstract datagram name made of the connection's addresses;
//! 2. the acceptor says Hello to that name (no socket there: the connection stays on TCP);
//! 3. the connector Asks it to show that it could trace the connector;
//! 4. the acceptor Shows it, and has the connector show the same (`trial`);
//! 5. the connector answers with an Offer: the segment, and its doorbells;
//! 6. the acceptor Accepts with its own doorbells, and takes the request that it finds inside.
//!
//! An acceptor's end that several processes have says that it stays on TCP, and the connector gives up.
//!
//! Where the rules name a NIC in software, each end asks that for a VI instead (`nic`). Where the other end may be in another
//! network namespace, both ask the agent of the host, and go on from the Hello on a socket that it gives them (`agent`).
//!
//! Any process may bind any name, so no message is believed by itself: before anything is handed over
//! or switched, the speaker's user id, vouched for by the kernel, and the cookie it names are compared
//! with what the kernel knows of the socket at the other end of *this* connection; and memory is
//! shared only by two processes each of which could trace the other by the kernel's own rule.
//! Descriptors go only to the very address that a proven message came from. Everything else is
//! dropped and counted.

mod agent;
mod attach;
mod due;
mod first;
pub(crate) mod history;
mod known;
mod nic;
mod offer;
mod permit;
mod proof;
mod trial;
mod why;

pub use history::Server;

use crate::conn::{Phase, Role};
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use crate::{config, family, inheritance, process, stats};
use attach::Attached;
use core::sync::atomic::Ordering;
use due::is_due;
use first::{MEETINGS_STATE, Meetings, forget, step_by_nic};
pub(crate) use permit::refusal;
use permit::{nic_of, permitted};
pub(crate) use proof::{addresses, peer_is_held};
use sovia_control::{Junk, Reason};
use sovia_signal::chain::is_in_handler;
use sovia_sync::{Held, Local, RobustLock, rank};

/// Transfers after which an end gives up what only another process's end could change.
const PATIENCE: u32 = 4096;
/// Junk datagrams that one look takes off a socket; more wait for the next look.
const DATAGRAMS: usize = 16;

per_engine! {
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

/// One look at where a candidate's meeting stands. True if it must go back to TCP.
#[cold]
fn step(fd: i32, at: Ref, n: u32) -> bool {
    if is_in_handler() {
        // Threads may have to be started, which takes the program's malloc; the handler may have
        // interrupted that. The next call outside of handlers goes on.
        return false;
    }
    if is_vain(at, n) {
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

/// Returns true if a look would find nothing: an acceptor looks for requests alone before it looks for other processes.
fn is_vain(at: Ref, n: u32) -> bool {
    at.conn.role() == Role::Acceptor
        && n < at.conn.approach.unknown_after.load(Ordering::Relaxed)
        && !config::names_nics()
        && !known::is_asked_for(at)
}

fn locked_step(fd: i32, at: Ref, n: u32) -> Attached {
    // Decided meanwhile by another thread, or closed.
    if at.conn.phase() != Phase::Candidate || !at.is_here() || process::is_changing() {
        return Attached::No;
    }
    if !inheritance::is_alone(fd, at) || family::is_shared(at.conn) {
        if n >= PATIENCE {
            stay_shared(fd, at);
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
            // It may have been on its way to a first meeting as well.
            if attached != Attached::No {
                MEETINGS_STATE.with(|meetings| meetings.over(at));
            } else if at.conn.phase() == Phase::Plain {
                let _ = forget(at);
            }
            attached
        }
        known::Step::Unknown if n >= at.conn.approach.unknown_after.load(Ordering::Relaxed) => {
            MEETINGS_STATE.with(|meetings| meetings.step(fd, at, n))
        }
        known::Step::Unknown => Attached::No,
    }
}

/// An end that several processes have stays on TCP. Its connector is notified, and does not go on asking.
#[cold]
fn stay_shared(fd: i32, at: Ref) {
    if at.conn.role() == Role::Acceptor
        && let Some(link) = permitted(fd, at)
    {
        first::send_stay(link);
    }
    give_up(at, Reason::SharedByProcesses);
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
        withdraw(at);
        ended(at, 0);
        at.conn.count_stay(Reason::HalfClosed);
    }
}

/// Keeps every other thread of this process from taking a step in a connection's meeting, for as long as it lives.
pub(crate) struct Steps(#[expect(dead_code)] Held<'static, Local, { rank::STEP }>);

impl Steps {
    /// `None` if a signal handler has interrupted a step of the calling thread.
    pub(crate) fn hold(at: Ref) -> Option<Steps> {
        let lock = &STEPS[at.index as usize % STEPS.len()];
        (!lock.is_mine()).then(|| Steps(lock.guard()))
    }

    /// Withdraws what a connection has asked for. Returns why it has not met.
    pub(crate) fn forget(&self, at: Ref) -> Reason {
        known::closed(at);
        let begun = at.conn.approach.history.load(Ordering::Acquire) != 0
            && at.conn.transfers.load(Ordering::Relaxed)
                >= at.conn.approach.unknown_after.load(Ordering::Relaxed);
        let reason = if begun { forget(at) } else { Reason::ShortLived };
        at.conn.approach.kept_for().unwrap_or(reason)
    }
}

/// Withdraws what a connection that stays on TCP has asked for.
pub(crate) fn withdraw(at: Ref) {
    if let Some(steps) = Steps::hold(at) {
        let _ = steps.forget(at);
    }
}

/// Withdraws requests to peers that have died, of connections that may never take another step.
pub(crate) fn withdraw_from_dead() {
    table::for_each_conn(|_, at| {
        if known::has_asked_dead(at)
            && let Some(_steps) = Steps::hold(at)
            && known::has_asked_dead(at)
        {
            known::closed(at);
        }
    });
}

fn junk(kind: Junk) {
    stats::junk(kind);
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
    MEETINGS_STATE.with(Meetings::leave_all);
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
