//! The thread that calls back for each message that has arrived (SOVIA_NOTIFY).
//!
//! VIA's `VipRecvNotify` has the NIC call a function of the program's, in a thread of the NIC's library:
//! the thread that finds a descriptor done hands the call on. So a message costs three wake-ups, one more
//! than SOVIA_HANDLER's, which is what made it the slowest in the papers as well (ICS figure 5).

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
    /// Connections with a call on its way.
    static CALLS: RobustBox<VecDeque<u32>, { rank::CALLS }> = RobustBox::new(VecDeque::new());
    /// Changes with each call, for the thread to sleep on.
    static GIVEN: AtomicU32 = AtomicU32::new(0);
}

/// Has the thread ready. False if it cannot be had.
pub(super) fn ensure() -> bool {
    THREAD.ensure(|| thread::start(run, core::ptr::null_mut(), Ends::WhenTold))
}

/// Has the thread call back for a connection, once however much arrives until it does.
pub(super) fn call(index: u32) {
    let Some(conn) = family::conn(index) else { return };
    if conn.set(flag::CALLED) & flag::CALLED == 0 {
        CALLS.with(|calls| calls.push_back(index));
        nudge();
    }
}

/// Wakes the thread.
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
            // Before the look: what comes after it is called for again.
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

/// Around fork: see [`crate::fork`].
pub(super) fn hold() {
    THREAD.hold();
    CALLS.hold();
}

/// After fork, in both.
pub(super) fn release() {
    CALLS.release();
    THREAD.release();
}

/// In a forked child, whose parent calls back for what both have.
pub(super) fn forked() {
    CALLS.with(VecDeque::clear);
}
