//! A connection on its way back is taken a step further by the calls that come by.

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

/// Whether [`settle`] or [`is_bringing`] may have something to do: the connection is going back, or has.
#[inline]
pub(crate) fn concerns(conn: &Conn) -> bool {
    conn.has(flag::FALLING_BACK | flag::LEFT_TO_SETS | flag::RETURNING) || conn.rx() == Rx::Back
}

/// After a call: if both directions are back on TCP, the connection becomes an ordinary socket.
pub(crate) fn settle(at: Ref) {
    let conn = at.conn;
    if conn.has(flag::LEFT_TO_SETS) {
        // By a relative, perhaps.
        sets::detached(at);
    }
    if conn.is_going_back() {
        go_on(at);
    }
}

/// How long a call that must not wait waits for bytes which it may have been told of.
const BRINGING_NS: u64 = 20_000_000;

/// Whether TCP has bytes now of those that were unread on the VI, though there were none a moment ago. Another
/// thread's call may have sent them that way since the program was told of them, and the kernel never takes back
/// what it has told. A peer that is stopped brings none: then they are told of again when they come.
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

/// A set has a connection that is going back to TCP, or has left its VI.
pub(crate) fn settle_in_sets(at: Ref) {
    if at.is_attached_here() {
        settle(at);
    } else {
        // A relative has taken it back, and knows the entries only that it has copies of.
        sets::detached(at);
    }
}

/// Takes a connection that is being taken back a step further: the thread that did so may have ended.
#[cold]
#[inline(never)]
pub(crate) fn go_on(at: Ref) {
    let conn = at.conn;
    if process::is_borrowed() {
        // The numbers that are known are its parent's.
        return;
    }
    let Some(mut guard) = at.attached() else { return };
    let Some(fd) = table::descriptor_of(conn) else { return };
    if conn.is_going_back() && step_for_another(&mut guard, fd) == Step::Over {
        drop(guard);
        detach(at);
    }
}

/// The same for a call that has found nothing to receive. What it is then over is settled after it.
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
