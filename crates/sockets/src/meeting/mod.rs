//! Rendezvous: the exchange by which the two ends of a connection find out that both run under Sovia on one host.
//!
//! A rendezvous costs as much as some transfers over TCP. So the lengths of earlier connections to the same address
//! decide when a rendezvous begins (`history`).
//!
//! If the two processes already share a segment (`known`), the connector puts a request with the connection's
//! addresses into the segment's table. The acceptor looks into the table and takes the request. The only system calls
//! are those that prove the other end's identity.
//!
//! Two processes that share no segment exchange messages first (`first`):
//!
//! 1. The connector binds an abstract datagram name made of the connection's addresses.
//! 2. The acceptor sends Hello to that name. If no socket has the name, the connection stays on TCP.
//! 3. The connector sends Ask: the acceptor must show that it could trace the connector.
//! 4. The acceptor sends Show with the proof, and demands the same proof from the connector (`trial`).
//! 5. The connector sends Offer with the segment and the connector's doorbells.
//! 6. The acceptor sends Accept with its own doorbells, and takes the request that it finds in the segment.
//!
//! If several processes hold the acceptor's end, one of them sends Stay, and the connector gives up.
//!
//! If the rules name a NIC in software, each end requests a VI from that NIC instead (`nic`). If the other end may be
//! in another network namespace, both ends query the agent of the host (`agent`). The agent gives each end a socket,
//! on which the two continue from the Hello.
//!
//! Any process may bind any name, so no message is trusted by itself. Before an end sends a descriptor or switches,
//! it asks the kernel about the socket at the other end of *this* connection. That socket's user id must equal the
//! sender's user id, which the kernel attaches to the message. Its cookie must equal the cookie in the message. Two
//! processes share memory only if each could trace the other, or if rules at both ends trust the other's user. The
//! kernel decides which process can trace another. Descriptors go only to the address that a proven message came
//! from. Messages that fail a check are dropped and counted.

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

/// Number of transfers after which an end gives up because of a condition that only another process can change.
const PATIENCE: u32 = 4096;
/// Maximum number of messages that one step takes off a socket, and of malformed datagrams before each message. The
/// rest waits for the next step.
const DATAGRAMS: usize = 16;

per_engine! {
    /// Locks of the connections' steps: one thread at a time takes a step for a connection. Meanwhile other threads
    /// and signal handlers send and receive over TCP.
    static STEPS: [RobustLock<Local, { rank::STEP }>; 64] = [const { RobustLock::new() }; 64];
}

/// Takes a step of the rendezvous if one is due. Called before a connection that is not yet accelerated sends.
/// Returns true if the connection has a VI that it cannot keep: the caller must move the connection back to TCP.
#[inline]
#[must_use]
pub fn before_send(fd: i32, at: Ref) -> bool {
    let n = at.conn.transfers.load(Ordering::Relaxed);
    is_due(fd, at, n) && step(fd, at, n)
}

/// Counts a send of a connection that is not yet accelerated.
#[inline]
pub fn sent(at: Ref) {
    at.conn.transfers.fetch_add(1, Ordering::Relaxed);
}

/// Counts a receive of a connection that is not yet accelerated, and takes a step of the rendezvous if one is due.
/// Returns true in the same case as [`before_send`].
#[inline]
#[must_use]
pub fn received(fd: i32, at: Ref) -> bool {
    let n = at.conn.transfers.fetch_add(1, Ordering::Relaxed) + 1;
    is_due(fd, at, n) && step(fd, at, n)
}

/// Takes one step of a connection's rendezvous. Returns true if the connection must go back to TCP.
#[cold]
fn step(fd: i32, at: Ref, n: u32) -> bool {
    if is_in_handler() {
        // A step may start threads, which calls the program's malloc. The signal handler may have interrupted malloc.
        // The next call outside a handler takes the step.
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

/// Returns true if a step would find nothing. Before an acceptor looks for other processes, it only looks for
/// requests.
fn is_vain(at: Ref, n: u32) -> bool {
    at.conn.role() == Role::Acceptor
        && n < at.conn.approach.unknown_after.load(Ordering::Relaxed)
        && !config::names_nics()
        && !known::is_asked_for(at)
}

fn locked_step(fd: i32, at: Ref, n: u32) -> Attached {
    // Another thread may have decided or closed the connection before this thread took the lock.
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
            // The connection may also have a first rendezvous under way.
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

/// Gives up an end that several processes hold. An acceptor notifies its connector, so that the connector stops
/// asking.
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

/// Records the length of a connection when this process closes its last descriptor. `messages` is the number of
/// messages sent on the VI. The number of messages received is assumed to be about equal.
pub(crate) fn ended(at: Ref, messages: u64) {
    known::ended(at, at.conn.transfers.load(Ordering::Relaxed), messages);
}

/// Keeps a connection on TCP that is not yet accelerated. Called before the program shuts down one side.
pub(crate) fn shut(at: Ref) {
    if at.conn.stay_plain() {
        withdraw(at);
        ended(at, 0);
        at.conn.count_stay(Reason::HalfClosed);
    }
}

/// Keeps every other thread of this process from taking a step in a connection's rendezvous, until dropped.
pub(crate) struct Steps(#[expect(dead_code)] Held<'static, Local, { rank::STEP }>);

impl Steps {
    /// Takes the lock of a connection's steps. Returns `None` if a signal handler has interrupted a step of the
    /// calling thread.
    pub(crate) fn hold(at: Ref) -> Option<Steps> {
        let lock = &STEPS[at.index as usize % STEPS.len()];
        (!lock.is_mine()).then(|| Steps(lock.guard()))
    }

    /// Withdraws the requests of a connection. Returns why the connection got no VI.
    pub(crate) fn forget(&self, at: Ref) -> Reason {
        known::closed(at);
        let begun = at.conn.approach.history.load(Ordering::Acquire) != 0
            && at.conn.transfers.load(Ordering::Relaxed)
                >= at.conn.approach.unknown_after.load(Ordering::Relaxed);
        let reason = if begun { forget(at) } else { Reason::ShortLived };
        at.conn.approach.kept_for().unwrap_or(reason)
    }
}

/// Withdraws the requests of a connection that stays on TCP.
pub(crate) fn withdraw(at: Ref) {
    if let Some(steps) = Steps::hold(at) {
        let _ = steps.forget(at);
    }
}

/// Withdraws requests to dead peers. Their connections may never take another step.
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

/// Ends every rendezvous of this process and withdraws all requests.
pub(crate) fn leave_all() {
    // Wait until steps that began before the change are over. Later steps do nothing.
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

/// Fork prepare: waits until no rendezvous is in the middle of a step.
pub(crate) fn hold() {
    STEPS.iter().for_each(RobustLock::hold);
    MEETINGS_STATE.hold();
}

/// After fork, in parent and child.
pub(crate) fn release() {
    MEETINGS_STATE.release();
    STEPS.iter().for_each(RobustLock::release);
}
