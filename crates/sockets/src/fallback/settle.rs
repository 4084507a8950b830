//! Steps of a fallback that other calls on the connection take.

use super::step::{FallbackState, step_or_end};
use super::{detach, give_up};
use crate::conn::{Conn, Guard, flag};
use crate::stream::listeners;
use crate::stream::returned::DRAIN_NS;
use crate::table::{self, Ref};
use crate::{epoll_sets, process};
use core::sync::atomic::Ordering;
use sovia_proto::path::Rx;
use sovia_sync::hazard::Waits;
use sovia_sys::{call, clock, futex, poll};

/// Returns true if [`settle`] or [`is_bringing`] may have work: the connection is falling back, or has fallen back.
#[inline]
pub(crate) fn concerns(conn: &Conn) -> bool {
    conn.has(flag::FALLING_BACK | flag::LEFT_TO_EPOLL_SETS | flag::RETURNING)
        || conn.rx() == Rx::Back
}

/// Continues a fallback after a call on the connection. If both directions are on TCP, the connection becomes an
/// ordinary socket.
pub(crate) fn settle(at: Ref) {
    let conn = at.conn;
    if conn.has(flag::LEFT_TO_EPOLL_SETS) {
        // A relative may have set this flag, and cannot change this process's epoll sets.
        epoll_sets::detached(at);
    }
    if conn.is_going_back() {
        go_on(at);
    }
}

/// Maximum number of nanoseconds that a non-blocking receive waits for bytes that may have been reported to the
/// program as readable.
const BRINGING_NS: u64 = 20_000_000;

/// Waits until the peer has put the VI's unread bytes on TCP, and returns true if TCP has bytes now. Called by a
/// non-blocking receive that found no bytes on TCP. These bytes may have been reported to the program as readable
/// before the fallback moved them, and the kernel never withdraws such a report. If the peer is stopped, returns
/// false after [`BRINGING_NS`]. The bytes are reported again when they arrive.
pub(crate) fn is_bringing(fd: i32, at: Ref) -> bool {
    let conn = at.conn;
    if !conn.has(flag::RETURNING) {
        return false;
    }
    let start = clock::now_ns();
    let waits = Waits::begin(false);
    while clock::now_ns() - start < BRINGING_NS {
        let wake_word = {
            let Some(guard) = at.attached() else { return true };
            if conn.rx() != Rx::Back || poll::probe(fd, libc::POLLIN) != 0 {
                return true;
            }
            let wake_word = listeners::reader_wake_word(&guard, &waits);
            wake_word.going_to_sleep();
            wake_word
        };
        let word = wake_word.word().load(Ordering::SeqCst);
        let _ = futex::wait(wake_word.word(), word, Some(DRAIN_NS / 10));
    }
    false
}

/// Waits until the peer has taken a step of the connection's fallback, for at most `longest` nanoseconds. Returns at
/// once if the fallback is over.
pub(crate) fn await_peer(at: Ref, longest: u64) {
    let waits = Waits::begin(false);
    let (wake_word, before) = {
        let Some(guard) = at.attached() else { return };
        let wake_word = listeners::reader_wake_word(&guard, &waits);
        let before = wake_word.word().load(Ordering::SeqCst);
        wake_word.going_to_sleep();
        (wake_word, before)
    };
    // The peer may have taken the step before this thread announced its sleep.
    go_on(at);
    if at.conn.is_going_back() {
        let _ = futex::wait(wake_word.word(), before, Some(longest));
    }
}

/// Continues the fallback of a connection that an epoll set watches. If the connection has left its VI, removes the
/// connection from the epoll sets.
pub(crate) fn settle_in_epoll_sets(at: Ref) {
    if at.is_attached_here() {
        settle(at);
    } else {
        // A relative has moved the connection back to TCP. The relative could remove only the entries of epoll sets
        // that it has copies of.
        epoll_sets::detached(at);
    }
}

/// Takes a step of a fallback, because the thread that began the fallback may have ended.
#[cold]
#[inline(never)]
pub(crate) fn go_on(at: Ref) {
    let conn = at.conn;
    if process::is_borrowed() {
        // The calling process is a child of `vfork`, and the table of descriptors describes its parent's
        // descriptors.
        return;
    }
    let Some(mut guard) = at.attached() else { return };
    let Some(fd) = table::descriptor_of(conn) else { return };
    if conn.is_going_back() && step_for_another(&mut guard, fd) == FallbackState::Over {
        drop(guard);
        detach(fd, at);
    }
}

/// Takes a step like [`go_on`], under the connection's lock, for a call that has found no bytes to receive. The
/// fallback ends only after the call ([`settle`]).
#[inline]
pub(crate) fn go_on_under(guard: &mut Guard<'_>, fd: i32) {
    if guard.conn.has(flag::FALLING_BACK) {
        step_for_another(guard, fd);
    }
}

#[cold]
#[inline(never)]
fn step_for_another(guard: &mut Guard<'_>, fd: i32) -> FallbackState {
    let conn = guard.conn;
    let relaying = conn.relaying.load(Ordering::Acquire);
    if relaying != 0 && call::task_exists(relaying as i32) {
        return FallbackState::Waits;
    }
    let came = step_or_end(guard, fd);
    if came == FallbackState::Stays {
        give_up(guard, came);
    }
    came
}
