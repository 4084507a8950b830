//! The sender's side of a retreat: answer a revoke, and put on TCP what is unread on the VI.

use super::patience::Patience;
use crate::conn::{Conn, Guard, Phase, flag};
use crate::per_engine::per_engine;
use crate::stream::returned::{DRAIN_NS, holds_back};
use crate::stream::{self, ending, failover, leaving, listeners, reflected};
use crate::table::Ref;
use crate::{family, pair, table};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_proto::path::Tx;
use sovia_sync::hazard::Waits;
use sovia_sys::futex;

/// Between two looks of a thread that waits for a peer's answer.
const STEP_NS: u64 = 10_000_000;

per_engine! {
    /// Whether bytes that were unread on a VI wait for room on TCP.
    static DRAINING: AtomicBool = AtomicBool::new(false);
}

/// Has the receiver revoke the direction in which we send, and puts on TCP what it returns.
pub(super) fn ask_peer(fd: i32, at: Ref, patience: Patience) {
    let conn = at.conn;
    let waits = Waits::begin(false);
    let bell = {
        let Some(mut guard) = conn.attached() else { return };
        leaving::ask_for_revoke(&mut guard);
        listeners::room_bell(&guard, &waits)
    };
    while conn.phase() == Phase::Attached {
        let before = bell.word().load(Ordering::SeqCst);
        bell.going_to_sleep();
        let done = {
            let Some(mut guard) = conn.attached() else { return };
            leaving::answer_revoke(&mut guard);
            (conn.tx() != Tx::Vi && !holds_back(&mut guard, fd)) || patience.is_over(&guard)
        };
        if !done {
            let _ = futex::wait(bell.word(), before, Some(STEP_NS));
        }
        if done || stream::kernel_socket_has_ended(fd) {
            return;
        }
    }
}

/// The progress thread's pause: short while bytes wait for room on TCP.
pub(crate) fn pause() -> Option<u64> {
    DRAINING.load(Ordering::Relaxed).then_some(DRAIN_NS)
}

/// Whether a peer wants something of that connection.
fn is_wanted(conn: &Conn) -> bool {
    if conn.phase() != Phase::Attached || conn.has(flag::CORRUPT) {
        return false;
    }
    conn.attached().is_some_and(|guard| may_go_on(&guard) || failover::may_be_told(&guard))
}

/// Whether there is a step to be taken.
fn may_go_on(guard: &Guard<'_>) -> bool {
    leaving::is_asked_for_revoke(guard)
        || leaving::is_waited_for(guard)
        || failover::may_settle(guard)
        || failover::is_on(guard) && guard.conn.is_going_back()
}

/// Notes which peers behind a NIC have left or died.
fn note_ends() {
    pair::each(|_, pair| {
        if !pair.is_nic() {
            return;
        }
        pair.each_conn(|index| {
            if let Some(mut guard) = family::conn(index).and_then(Conn::attached)
                && reflected::note_end(&guard)
            {
                ending::gone(&mut guard);
            }
        });
    });
}

/// The progress thread: answers revokes, and moves what is unread on VIs that have been left.
pub(crate) fn serve() {
    let mut wanted = Vec::new();
    pair::each(|_, pair| {
        pair.each_conn(|index| {
            if family::conn(index).is_some_and(is_wanted) {
                wanted.push(index);
            }
        });
    });
    note_ends();
    let (mut left, mut back) = (false, Vec::new());
    if !wanted.is_empty() {
        table::for_each_conn(|fd, at| {
            if !wanted.contains(&at.index) {
                return;
            }
            let Some(mut guard) = at.attached() else { return };
            if leaving::is_asked_for_revoke(&guard) {
                drop(guard);
                super::now(fd, at, super::Cause::Peer);
                return;
            }
            if failover::told(&mut guard, fd) || !may_go_on(&guard) {
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
            listeners::tell_own(at.conn);
        });
    }
    back.into_iter().for_each(super::go_on);
    DRAINING.store(left, Ordering::Relaxed);
}
