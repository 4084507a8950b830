//! The notifying thread, which calls back for each message that has arrived (SOVIA_NOTIFY).
//!
//! VIA's `VipRecvNotify` makes the NIC call a function of the program, on a thread of the NIC's library. Here the
//! handler thread finds the message, and the notifying thread makes the call. So a message costs three wake-ups,
//! one more than with SOVIA_HANDLER. In the papers too, SOVIA_NOTIFY was the slowest for this reason (ICS figure
//! 5).

use super::handle;
use crate::conn::flag;
use crate::family;
use crate::per_engine::per_engine;
use crate::thread::{self, Ends, OncePerProcess};
use core::sync::atomic::{AtomicU32, Ordering};

use sovia_sync::{RobustBox, rank};
use sovia_sys::{call, futex};
use std::collections::VecDeque;

per_engine! {
    static THREAD: OncePerProcess = OncePerProcess::new();
    /// Connections for which the notifying thread must call back.
    static CALLS: RobustBox<VecDeque<u32>, { rank::CALLS }> = RobustBox::new(VecDeque::new());
    /// Incremented with each new call and each nudge. The notifying thread sleeps on this word.
    static GIVEN: AtomicU32 = AtomicU32::new(0);
}

/// Starts the notifying thread if needed. Returns false if no thread can be started.
pub(super) fn ensure() -> bool {
    THREAD.ensure(|| thread::start(run, core::ptr::null_mut(), Ends::OnRequest))
}

/// Makes the notifying thread call back for the connection `index`. One call serves all messages that arrive before
/// the call.
pub(super) fn call(index: u32) {
    let Some(conn) = family::conn(index) else { return };
    if conn.set(flag::CALLED) & flag::CALLED == 0 {
        CALLS.with(|calls| calls.push_back(index));
        nudge();
    }
}

/// Wakes the notifying thread.
pub(super) fn nudge() {
    GIVEN.fetch_add(1, Ordering::Release);
    futex::wake(&GIVEN, 1);
}

extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
    loop {
        let given = GIVEN.load(Ordering::Acquire);
        if thread::must_end() {
            return core::ptr::null_mut();
        }
        let mut waits = false;
        while let Some(index) = CALLS.with(VecDeque::pop_front) {
            let Some(conn) = family::conn(index) else { continue };
            // Clear the flag before `handle`, because a message that arrives after the check needs another call.
            conn.clear(flag::CALLED);
            if !handle(conn) {
                call(index);
                waits = true;
                break;
            }
        }
        if waits {
            call::sched_yield();
        } else {
            let _ = futex::wait(&GIVEN, given, None);
        }
    }
}

/// Takes this module's locks before a fork ([`crate::fork`]).
pub(super) fn hold() {
    THREAD.hold();
    CALLS.hold();
}

/// Releases this module's locks after a fork, in parent and child.
pub(super) fn release() {
    CALLS.release();
    THREAD.release();
}

/// Drops pending calls in a forked child. The parent calls back for connections that the child shares.
pub(super) fn forked() {
    CALLS.with(VecDeque::clear);
}
