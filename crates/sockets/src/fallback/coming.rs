//! Connections on their way back to TCP for whose end no thread waits.

use super::hand_over::PROCESSES;
use super::settle::go_on;
use super::{Cause, begin};
use crate::family;
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_control::Reason;

per_engine! {
    /// Whether connections are on their way back of which no thread waits for the end.
    pub(super) static COMING: AtomicBool = AtomicBool::new(false);
}

/// Between two looks at them. A peer that answers rings.
const COMING_NS: u64 = 10_000_000;

/// Has a connection taken back to TCP without waiting for it: the thread that watches kernel sockets goes on with it.
pub(crate) fn soon(fd: i32, at: Ref, cause: Cause) {
    if begin(fd, at, cause) {
        COMING.store(true, Ordering::Relaxed);
        go_on(at);
    }
}

/// Whether a connection that the caller holds for another program is still to come back; takes it a step further.
pub(crate) fn is_still_coming(at: Ref) -> bool {
    go_on(at);
    at.conn.is_going_back()
}

/// This process is about to close a descriptor of a connection that it has left to another program, and that is not
/// back yet because the peer is stopped. If no other process holds it, one of the library's does from here on.
#[cold]
pub(crate) fn before_close(fd: i32, at: Ref) {
    go_on(at);
    let is_anothers = at.conn.leaves_for.load(Ordering::Relaxed) == Reason::RetreatExec as u32 + 1;
    if is_anothers && at.conn.is_going_back() && !family::is_shared(at.conn) {
        let _ = PROCESSES.get().is_some_and(|processes| (processes.accompany)(&[(fd, at)]));
    }
}

/// How long until such connections are to be looked at again; `None` if there are none.
pub(crate) fn pause() -> Option<u64> {
    COMING.load(Ordering::Relaxed).then_some(COMING_NS)
}

/// Goes on with those, for the thread that watches kernel sockets. Whether there were any.
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
