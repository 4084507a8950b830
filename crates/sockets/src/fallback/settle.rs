//! Steps of a fallback that other calls on the connection take.

use super::step::{Step, step_or_end};
use super::{detach, give_up};
use crate::conn::{Conn, Guard, flag};
use crate::stream::listeners;
use crate::stream::returned::DRAIN_NS;
use crate::table::{self, Ref};
use crate::{process, sets};
use core::sync::atomic::Ordering;
use sovia_proto::path::Rx;
use sovia_sync::hazard::Waits;
use sovia_sys::{call, clock, futex, poll};

/// Returns true if [`settle`] or [`is_bringing`] may have work: the connection is falling back, or has fallen back.
#[inline]
pub(crate) fn concerns(conn: &Conn) -> bool {
    conn.has(flag::FALLING_BACK | flag::LEFT_TO_SETS | flag::RETURNING) || conn.rx() == Rx::Back
}

/// Continues a fallback after a call. If both directions are on TCP, the connection becomes an ordinary socket.
pub(crate) fn settle(at: Ref) {
    let conn = at.conn;
    if conn.has(flag::LEFT_TO_SETS) {
        // A relative may have set this flag.
        sets::detached(at);
    }
    if conn.is_going_back() {
        go_on(at);
    }
}

/// Nanoseconds that a non-blocking call waits for bytes that may have been reported to the program.
const BRINGING_NS: u64 = 20_000_000;

/// Returns true if TCP now has bytes that were unread on the VI, although TCP had none a moment ago. Another thread's
/// call may have moved the bytes since they were reported to the program, and the kernel never withdraws such a
/// report. A stopped peer puts none on TCP. Then the bytes are reported again when they arrive.
pub(crate) fn is_bringing(fd: i32, at: Ref) -> bool {
    let conn = at.conn;
    if !conn.has(flag::RETURNING) {
        return false;
    }
    let start = clock::now_ns();
    let waits = Waits::begin(false);
    while clock::now_ns() - start < BRINGING_NS {
        let bell = {
            let Some(guard) = at.attached() else { return true };
            if conn.rx() != Rx::Back || poll::probe(fd, libc::POLLIN) != 0 {
                return true;
            }
            let bell = listeners::reader_bell(&guard, &waits);
            bell.going_to_sleep();
            bell
        };
        let word = bell.word().load(Ordering::SeqCst);
        let _ = futex::wait(bell.word(), word, Some(DRAIN_NS / 10));
    }
    false
}

/// Continues a fallback for an epoll set that watches the connection, or removes a connection that has left its VI.
pub(crate) fn settle_in_sets(at: Ref) {
    if at.is_attached_here() {
        settle(at);
    } else {
        // A relative has moved the connection back, and knows only the entries that it has copies of.
        sets::detached(at);
    }
}

/// Takes a step of a fallback, because the thread that began it may have ended.
#[cold]
#[inline(never)]
pub(crate) fn go_on(at: Ref) {
    let conn = at.conn;
    if process::is_borrowed() {
        // The descriptor table belongs to the parent process.
        return;
    }
    let Some(mut guard) = at.attached() else { return };
    let Some(fd) = table::descriptor_of(conn) else { return };
    if conn.is_going_back() && step_for_another(&mut guard, fd) == Step::Over {
        drop(guard);
        detach(at);
    }
}

/// Takes a step like [`go_on`], for a call that has found nothing to receive. The fallback ends after the call.
#[inline]
pub(crate) fn go_on_under(guard: &mut Guard<'_>, fd: i32) {
    if guard.conn.has(flag::FALLING_BACK) {
        step_for_another(guard, fd);
    }
}

#[cold]
#[inline(never)]
fn step_for_another(guard: &mut Guard<'_>, fd: i32) -> Step {
    let conn = guard.conn;
    let relaying = conn.relaying.load(Ordering::Acquire);
    if relaying != 0 && call::task_exists(relaying as i32) {
        return Step::Waits;
    }
    let came = step_or_end(guard, fd);
    if came == Step::Stays {
        give_up(guard, came);
    }
    came
}
