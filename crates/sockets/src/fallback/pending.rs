//! Fallbacks that no thread waits for, and that the progress thread continues.

use super::hand_over::PROCESSES;
use super::settle::go_on;
use super::{Cause, begin};
use crate::conn::Conn;
use crate::family;
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_control::Reason;

per_engine! {
    /// Set while this process has fallbacks that no thread waits for.
    pub(super) static PENDING: AtomicBool = AtomicBool::new(false);
}

/// Nanoseconds between two steps that the progress thread takes of a fallback. A peer that answers wakes the
/// progress thread earlier.
const PENDING_STEP_NS: u64 = 10_000_000;

/// Begins a fallback without waiting for its end: the progress thread continues the fallback.
pub(crate) fn soon(fd: i32, at: Ref, cause: Cause) {
    if begin(fd, at, cause) {
        PENDING.store(true, Ordering::Relaxed);
        go_on(at);
    }
}

/// Takes a step of a fallback whose connection the caller holds for another program. Returns true if the connection
/// is not back on TCP yet.
pub(crate) fn is_still_pending(at: Ref) -> bool {
    go_on(at);
    at.conn.is_going_back()
}

/// Returns true if a connection must not end with this process's last descriptor. This process has left the
/// connection to another program or process, and no relative holds the connection. The peer has not done its part of
/// the fallback yet. Called under the connection's lock, so that of several relatives that close the connection one
/// finds no other holder.
#[cold]
pub(crate) fn needs_keeper(conn: &Conn) -> bool {
    let reason = conn.leaves_for.load(Ordering::Relaxed).checked_sub(1).and_then(Reason::of);
    let is_anothers = matches!(reason, Some(Reason::FallbackExec | Reason::FallbackPassed));
    is_anothers && conn.is_going_back() && !family::is_shared(conn)
}

/// Starts a process of the library that holds a connection until its fallback is over, if the fallback is not over
/// after another step. `fd` must be in the table.
#[cold]
pub(crate) fn start_keeper(fd: i32, at: Ref) {
    go_on(at);
    if at.conn.is_going_back() {
        let _ = PROCESSES.get().is_some_and(|processes| (processes.accompany)(&[(fd, at)]));
    }
}

/// Returns the time in nanoseconds until the next step of fallbacks that no thread waits for. Returns `None` if
/// there are no such fallbacks.
pub(crate) fn pause() -> Option<u64> {
    PENDING.load(Ordering::Relaxed).then_some(PENDING_STEP_NS)
}

/// Takes a step of each fallback that no thread waits for. Returns true if there were any. Called by the progress
/// thread.
pub(crate) fn continue_pending() -> bool {
    if !PENDING.swap(false, Ordering::Relaxed) {
        return false;
    }
    let mut pending = Vec::new();
    table::for_each_conn(|_, at| {
        if at.conn.is_going_back() {
            pending.push(at);
        }
    });
    for at in pending {
        go_on(at);
        if at.conn.is_going_back() {
            PENDING.store(true, Ordering::Relaxed);
        }
    }
    true
}
