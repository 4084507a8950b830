//! Sender's side of a fallback: answers a revocation, and puts the VI's unread bytes on TCP.

use super::patience::Patience;
use crate::conn::{Conn, Guard, Phase, flag};
use crate::per_engine::per_engine;
use crate::stream::returned::{DRAIN_NS, holds_back};
use crate::stream::{self, ending, failover, leaving, listeners, reflected};
use crate::table::{self, Ref};
use crate::{family, pair};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_proto::path::Tx;
use sovia_sync::hazard::Waits;
use sovia_sys::futex;

/// Nanoseconds between two checks of a thread that waits for a peer's answer.
const STEP_NS: u64 = 10_000_000;

per_engine! {
    /// Set while unread bytes of a VI wait for room on TCP.
    static DRAINING: AtomicBool = AtomicBool::new(false);
}

/// Asks the receiver to revoke the sending direction. Then puts on TCP the unread bytes that the receiver has
/// reported.
pub(super) fn ask_peer(fd: i32, at: Ref, patience: Patience) {
    let conn = at.conn;
    let waits = Waits::begin(false);
    let wake_word = {
        let Some(mut guard) = conn.attached() else { return };
        leaving::ask_for_revoke(&mut guard);
        listeners::room_wake_word(&guard, &waits)
    };
    while conn.phase() == Phase::Attached {
        let before = wake_word.word().load(Ordering::SeqCst);
        wake_word.going_to_sleep();
        let (done, has_ended) = {
            let Some(mut guard) = conn.attached() else { return };
            let fd = table::current(fd, at);
            leaving::answer_revoke(&mut guard);
            let is_back = conn.tx() != Tx::Vi && !holds_back(&mut guard, fd);
            (is_back || patience.is_over(&guard), stream::kernel_socket_has_ended(fd))
        };
        if done {
            return;
        }
        let _ = futex::wait(wake_word.word(), before, Some(STEP_NS));
        if has_ended {
            return;
        }
    }
}

/// Returns the progress thread's pause in nanoseconds while unread bytes of a VI wait for room on TCP. Returns
/// `None` if no bytes wait.
pub(crate) fn pause() -> Option<u64> {
    DRAINING.load(Ordering::Relaxed).then_some(DRAIN_NS)
}

/// Returns true if the progress thread must take a step for the connection, because its peer waits for this end.
fn is_wanted(conn: &Conn) -> bool {
    if conn.phase() != Phase::Attached || conn.has(flag::CORRUPT) {
        return false;
    }
    conn.attached().is_some_and(|guard| may_go_on(&guard) || failover::may_have_record(&guard))
}

/// Returns true if this end can take a step of a fallback or a failover.
fn may_go_on(guard: &Guard<'_>) -> bool {
    leaving::is_asked_for_revoke(guard)
        || leaving::is_waited_for(guard)
        || failover::may_settle(guard)
        || failover::is_on(guard) && guard.conn.is_going_back()
}

/// Records the end of each peer behind a NIC in software that has left its connection or died.
fn note_ends() {
    pair::each(|_, pair| {
        if !pair.is_nic() {
            return;
        }
        pair.each_conn(|_, index| {
            if let Some(mut guard) = family::conn(index).and_then(Conn::attached)
                && reflected::note_end(&guard)
            {
                ending::gone(&mut guard);
            }
        });
    });
}

/// Answers revocations, and puts unread bytes on TCP from VIs on which this end no longer sends. Called by the
/// progress thread.
pub(crate) fn serve() {
    let mut wanted = Vec::new();
    pair::each(|_, pair| {
        pair.each_conn(|vi, index| {
            let conn = family::conn(index);
            if conn.is_some_and(|conn| leaving::may_be_waited_for(conn, pair, vi)) {
                wanted.push(index);
            }
        });
    });
    note_ends();
    let (mut left, mut back) = (false, Vec::new());
    if !wanted.is_empty() {
        table::for_each_conn(|fd, at| {
            let Some(place) = wanted.iter().position(|&index| index == at.index) else { return };
            wanted.swap_remove(place);
            let Some(mut guard) = at.attached() else { return };
            let fd = table::current(fd, at);
            if leaving::is_asked_for_revoke(&guard) {
                drop(guard);
                super::now(fd, at, super::Cause::Peer);
                return;
            }
            if failover::begin_on_record(&mut guard, fd) || !may_go_on(&guard) {
                return;
            }
            if failover::may_settle(&guard) {
                failover::settle(&mut guard, fd);
                drop(guard);
                listeners::wake_own(at.conn);
                return;
            }
            leaving::answer_revoke(&mut guard);
            left |= holds_back(&mut guard, fd);
            let is_going_over = failover::is_on(&guard);
            drop(guard);
            if is_going_over {
                back.push(at);
            }
            listeners::notify_own(at.conn);
        });
    }
    // The program may have moved these to lower numbers, which the search had passed by.
    let has_moved = |conn: &'static Conn| is_wanted(conn) && table::descriptor_of(conn).is_some();
    left |= wanted.into_iter().any(|index| family::conn(index).is_some_and(has_moved));
    back.into_iter().for_each(super::go_on);
    DRAINING.store(left, Ordering::Relaxed);
}
