//! Fallbacks that no thread waits for.

use super::hand_over::PROCESSES;
use super::settle::go_on;
use super::{Cause, begin};
use crate::family;
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_control::Reason;

per_engine! {
    /// Set while there are fallbacks that no thread waits for.
    pub(super) static COMING: AtomicBool = AtomicBool::new(false);
}

/// Nanoseconds between two checks. A peer that answers wakes the progress thread earlier.
const COMING_NS: u64 = 10_000_000;

/// Begins a fallback without waiting for its end: the progress thread continues it.
pub(crate) fn soon(fd: i32, at: Ref, cause: Cause) {
    if begin(fd, at, cause) {
        COMING.store(true, Ordering::Relaxed);
        go_on(at);
    }
}

/// Takes a step of a fallback whose connection the caller holds for another program. Returns true if the connection
/// is not back on TCP yet.
pub(crate) fn is_still_coming(at: Ref) -> bool {
    go_on(at);
    at.conn.is_going_back()
}

/// Keeps a fallback alive before this process closes a descriptor of the connection. This process has left the
/// connection to another program, and the peer is stopped. If no other process holds the connection, a process of the
/// library does from now on.
#[cold]
pub(crate) fn before_close(fd: i32, at: Ref) {
    go_on(at);
    let is_anothers = at.conn.leaves_for.load(Ordering::Relaxed) == Reason::RetreatExec as u32 + 1;
    if is_anothers && at.conn.is_going_back() && !family::is_shared(at.conn) {
        let _ = PROCESSES.get().is_some_and(|processes| (processes.accompany)(&[(fd, at)]));
    }
}

/// Returns the time until the next check, or `None` if there are no such fallbacks.
pub(crate) fn pause() -> Option<u64> {
    COMING.load(Ordering::Relaxed).then_some(COMING_NS)
}

/// Progress thread: takes a step of each such fallback. Returns true if there were any.
pub(crate) fn go_on_coming() -> bool {
    if !COMING.swap(false, Ordering::Relaxed) {
        return false;
    }
    let mut coming = Vec::new();
    table::for_each_conn(|_, at| {
        if at.conn.is_going_back() {
            coming.push(at);
        }
    });
    for at in coming {
        go_on(at);
        if at.conn.is_going_back() {
            COMING.store(true, Ordering::Relaxed);
        }
    }
    true
}
