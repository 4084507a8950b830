//! Rendezvous: the exchange by which the two ends of a connection find out that both run under Sovia on one host.
//!
//! A rendezvous costs as much processor time as tens of transfers over TCP. So the module `history` decides when a
//! rendezvous begins, from the lengths of earlier connections to the same address.
//!
//! If the two processes already share a segment (`known`), the connector puts a request with the connection's
//! addresses into the segment's table. The acceptor looks into the table and accepts the request. The only system
//! calls are those that prove the other end's identity.
//!
//! Two processes that share no segment exchange messages first (`first`):
//!
//! 1. The connector binds an abstract name of a Unix datagram socket, made of the connection's addresses.
//! 2. The acceptor sends Hello to that name. If no socket has the name, the connection stays on TCP.
//! 3. The connector sends Ask: the acceptor must show that it could trace the connector (`ptrace`).
//! 4. The acceptor sends Show with the proof, and demands the same proof from the connector (`trial`).
//! 5. The connector sends Offer with the segment and the connector's doorbells.
//! 6. The acceptor sends Accept with its own doorbells, and accepts the request that it finds in the segment.
//!
//! If several processes hold the acceptor's end, one of these processes sends Stay, and the connection stays on
//! TCP.
//!
//! If the rules name a NIC in software, each end requests a VI from that NIC instead (`nic`). A connector does so only
//! while enough messages are in flight (`in_flight`). If the other end may
//! be in another network namespace, both ends query the agent of the host (`agent`). The agent gives each end a
//! socket, on which both processes continue from the Hello.
//!
//! Any process may bind any name, so no message is trusted by itself. An end asks the kernel about the socket at
//! the other end of *this* connection, before it sends a descriptor or uses a VI. That socket's user id must equal
//! the sender's user id, which the kernel attaches to the message. The socket's cookie must equal the cookie in the
//! message. Two processes share memory only if each could trace the other, or if rules at both ends trust the
//! other's user. The kernel decides which process can trace another. Descriptors go only to the address that a
//! proven message came from. Messages that fail a check are dropped and counted.
//!
//! If a program has closed the connection meanwhile, the kernel cannot identify its other end. Then an exchange goes on
//! only with a process that has already passed this check, or that answers this process's Hello. Such a process gets
//! descriptors only if each of the two processes could trace the other.

mod agent;
mod attach;
mod due;
mod first;
pub(crate) mod history;
pub(crate) mod in_flight;
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
use crate::{config, family, kernel_sockets, other_families, pair, process, stats};
use attach::Attached;
use core::sync::atomic::Ordering;
use due::{is_answer_due, is_due};
use first::{RENDEZVOUS_TABLE, RendezvousTable, forget};
use permit::permitted;
pub(crate) use permit::refusal;
pub(crate) use proof::{addresses, peer_is_held};
use sovia_control::{Junk, Reason, Traffic};
use sovia_signal::chain::is_in_handler;
use sovia_sync::{Held, Local, RobustLock, rank};

/// Number of transfers for which this end waits if only another process can remove an obstacle, such as a shared
/// descriptor.
const PATIENCE: u32 = 4096;
/// Maximum number of messages that one step reads from a socket. Also the maximum number of malformed datagrams
/// that are skipped before each message. Further datagrams wait for the next step.
const DATAGRAMS: usize = 16;

per_engine! {
    /// Locks that let one thread at a time take a rendezvous step for a connection. Other threads skip the step,
    /// and send and receive over TCP.
    static STEP_LOCKS: [RobustLock<Local, { rank::STEP }>; 64] = [const { RobustLock::new() }; 64];
}

/// Takes a step of the connection's rendezvous if a step is due. Called before a connection that is not yet
/// accelerated sends. Returns true if the connection has a VI that it cannot keep: the caller must move the
/// connection back to TCP.
#[inline]
#[must_use]
pub fn before_send(fd: i32, at: Ref) -> bool {
    let n = at.conn.transfers.load(Ordering::Relaxed);
    let has_looked = !at.conn.approach.has_sent();
    is_due(fd, at, n, has_looked) && step(fd, at, n)
}

/// Counts a send of a connection that is not yet accelerated. If the acceptor may have given the connection its VI
/// during the send, takes a step of the rendezvous. Returns true if the caller must move the connection back to TCP,
/// like [`before_send`].
#[inline]
#[must_use]
pub fn sent(fd: i32, at: Ref) -> bool {
    at.conn.approach.note_send();
    let n = at.conn.transfers.fetch_add(1, Ordering::Relaxed) + 1;
    // SYNC: pairs with the fence of the acceptor's sleep (`WakeWord::going_to_sleep`). Either the acceptor finds the
    // sent bytes before it sleeps, or this step finds that the acceptor has accepted.
    (is_answer_due(at, n) || at.conn.approach.is_eager(n)) && step(fd, at, n)
}

/// Counts a receive of a connection that is not yet accelerated, and takes a step of its rendezvous if a step is
/// due. Returns true if the caller must move the connection back to TCP, like [`before_send`].
#[inline]
#[must_use]
pub fn received(fd: i32, at: Ref) -> bool {
    at.conn.approach.note_receive();
    let n = at.conn.transfers.fetch_add(1, Ordering::Relaxed) + 1;
    is_due(fd, at, n, false) && step(fd, at, n)
}

/// Takes one step of a connection's rendezvous. Returns true if the connection must go back to TCP.
#[cold]
fn step(fd: i32, at: Ref, n: u32) -> bool {
    if is_in_handler() {
        // A step may start a thread, and so call the program's malloc. The signal handler may have interrupted
        // malloc. So the next call outside a signal handler takes the step.
        return false;
    }
    if is_vain(at, n) {
        return false;
    }
    let lock = &STEP_LOCKS[at.index as usize % STEP_LOCKS.len()];
    if !lock.try_lock() {
        return false;
    }
    let attached = locked_step(fd, at, n);
    lock.unlock();
    attached == Attached::GoesBack
}

/// Returns true if the connection's end is an acceptor, and a step would find no request. During the first
/// `unknown_after` transfers, an acceptor only looks for requests in known segments.
fn is_vain(at: Ref, n: u32) -> bool {
    at.conn.role() == Role::Acceptor
        && n < at.conn.approach.unknown_after.load(Ordering::Relaxed)
        && !config::names_nics()
        && !known::is_asked_for(at)
}

fn locked_step(fd: i32, at: Ref, n: u32) -> Attached {
    // Before this thread took the lock, another thread may have attached, given up or closed the connection.
    if at.conn.phase() != Phase::Eligible || !at.is_here() || process::is_changing() {
        return Attached::No;
    }
    // A close of `fd` removes the table's entry first, and then waits for this step ([`finish_step`]).
    if !table::refers(fd, at) {
        return Attached::No;
    }
    if !other_families::is_alone(fd, at) || family::is_shared(at.conn) {
        if n >= PATIENCE {
            stay_shared(fd, at);
        }
        return Attached::No;
    }
    if config::names_nics()
        && let Some(attached) = nic::step(fd, at, n)
    {
        return attached;
    }
    let known = match at.conn.role() {
        Role::Connector => known::connector(fd, at, n),
        Role::Acceptor => known::acceptor(fd, at),
    };
    match known {
        known::KnownOutcome::Done(attached) => {
            // If a first rendezvous of this connection is also under way, end it.
            if attached != Attached::No {
                RENDEZVOUS_TABLE.with(|table| table.over(at));
            } else if at.conn.phase() == Phase::Plain {
                let _ = forget(at);
            }
            attached
        }
        known::KnownOutcome::Unknown
            if n >= at.conn.approach.unknown_after.load(Ordering::Relaxed) =>
        {
            RENDEZVOUS_TABLE.with(|table| table.step(fd, at, n))
        }
        known::KnownOutcome::Unknown => Attached::No,
    }
}

/// Keeps a connection on TCP, because several processes hold this end. An acceptor also sends Stay, so that the
/// connector stops asking.
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

/// Records the length of a connection when this process closes the connection's last descriptor. `on_vi` is the
/// traffic on the VI.
pub(crate) fn ended(at: Ref, on_vi: &Traffic) {
    known::ended(at, on_vi);
}

/// Keeps a connection on TCP for good, if the connection is not accelerated yet. Called before the program shuts
/// down one direction.
pub(crate) fn shut(at: Ref) {
    if at.conn.stay_plain() {
        withdraw(at);
        ended(at, &Traffic::default());
        at.conn.count_stay(Reason::HalfClosed);
    }
}

/// Waits until no thread of this process takes a step of the connection's rendezvous. The program is about to close
/// a descriptor of the connection, and the table no longer has the descriptor's entry. A step uses its descriptor
/// until the step's end.
pub(crate) fn finish_step(at: Ref) {
    if at.conn.phase() == Phase::Eligible {
        drop(StepLock::hold(at));
    }
}

/// Lock guard: while this object lives, no other thread of this process takes a step of the connection's
/// rendezvous.
pub(crate) struct StepLock(#[expect(dead_code)] Held<'static, Local, { rank::STEP }>);

impl StepLock {
    /// Takes the lock of a connection's rendezvous steps. Returns `None` if the calling thread already holds the
    /// lock, because a signal handler has interrupted a step.
    pub(crate) fn hold(at: Ref) -> Option<StepLock> {
        let lock = &STEP_LOCKS[at.index as usize % STEP_LOCKS.len()];
        (!lock.is_mine()).then(|| StepLock(lock.guard()))
    }

    /// Withdraws the requests of a connection. Returns why the connection got no VI.
    pub(crate) fn forget(&self, at: Ref) -> Reason {
        let asks_nic = nic::requested(at).is_some();
        known::closed(at);
        let begun = at.conn.approach.history.load(Ordering::Acquire) != 0
            && at.conn.transfers.load(Ordering::Relaxed)
                >= at.conn.approach.unknown_after.load(Ordering::Relaxed);
        let reason = if asks_nic {
            Reason::NotOffered
        } else if begun {
            forget(at)
        } else {
            Reason::ShortLived
        };
        at.conn.approach.kept_for().unwrap_or(reason)
    }
}

/// Withdraws the requests of a connection that stays on TCP.
pub(crate) fn withdraw(at: Ref) {
    if let Some(steps) = StepLock::hold(at) {
        let _ = steps.forget(at);
    }
}

/// Withdraws requests to dead peers. The connections with these requests may be idle, and then take no step that
/// would withdraw the requests.
pub(crate) fn withdraw_from_dead() {
    table::for_each_conn(|_, at| {
        if known::has_asked_dead(at)
            && let Some(_steps) = StepLock::hold(at)
            && known::has_asked_dead(at)
        {
            known::closed(at);
        }
    });
}

fn junk(kind: Junk) {
    stats::junk(kind);
}

/// Withdraws the request for VI number `vi` of a pair.
fn abandon(pair: u32, vi: u32) {
    if let Some(pair) = pair::get(pair)
        && pair.abandon(vi)
    {
        // A thread of the acceptor may already wait for the VI. TCP ends soon, so the acceptor's progress thread
        // should watch TCP now.
        pair.ring(kernel_sockets::DOORBELL);
    }
}

/// Ends every rendezvous of this process and withdraws all requests.
pub(crate) fn leave_all() {
    // Wait until running steps are over. Later steps do nothing, because `process::is_changing` returns true.
    for lock in STEP_LOCKS.iter() {
        lock.hold();
        lock.release();
    }
    table::for_each_conn(|_, at| {
        if at.conn.phase() == Phase::Eligible {
            known::closed(at);
        }
    });
    RENDEZVOUS_TABLE.with(RendezvousTable::leave_all);
}

/// Called before fork: waits for running rendezvous steps, and blocks further steps until [`release`].
pub(crate) fn hold() {
    STEP_LOCKS.iter().for_each(RobustLock::hold);
    RENDEZVOUS_TABLE.hold();
}

/// Called after fork, in parent and child: releases what [`hold`] locked.
pub(crate) fn release() {
    RENDEZVOUS_TABLE.release();
    STEP_LOCKS.iter().for_each(RobustLock::release);
}
