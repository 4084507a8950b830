//! The sender's side of a retreat: answer a recall, and put on TCP what is unread on the VI.

use super::patience::Patience;
use crate::conn::{Conn, Guard, Phase, flag};
use crate::stream::listeners;
use crate::stream::returned::{PUMP_NS, holds_back, recalled};
use crate::stream::{self, load, store, tell_reader, word};
use crate::table::Ref;
use crate::{anchors, family, pair, table};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_proto::path::{self, CANCELLED, Grant, Owed, Tx};
use sovia_sync::hazard::Waits;
use sovia_sys::futex;
use via_shm::waiter::Bell;

/// Between two looks of a thread that waits for a peer's answer.
const STEP_NS: u64 = 10_000_000;

/// Whether bytes that were unread on a VI wait for room on TCP.
static PUMPING: AtomicBool = AtomicBool::new(false);

/// Has the receiver recall the direction in which we send, and puts on TCP what it returns.
pub(super) fn ask_peer(fd: i32, at: Ref, patience: Patience) {
    let conn = at.conn;
    let waits = Waits::begin(false);
    let bell: &Bell = {
        let Some(mut guard) = conn.attached() else { return };
        guard.own.asked = 1;
        let direction = guard.endpoint_ref().tx.direction();
        store(&direction.path, word::ASKED, 1);
        tell_reader(&guard);
        if let Some(pair) = pair::of(&guard) {
            pair.ring(anchors::DOORBELL);
        }
        let bell: *const Bell = &raw const direction.room;
        pair::keep(&guard, &waits);
        // SAFETY: the segment stays mapped while `waits` names its pair.
        unsafe { &*bell }
    };
    while conn.phase() == Phase::Attached {
        let before = bell.word().load(Ordering::SeqCst);
        bell.going_to_sleep();
        let done = {
            let Some(mut guard) = conn.attached() else { return };
            let path = &guard.endpoint_ref().tx.direction().path;
            if Grant::from_word(load(path, word::GRANT)) == Grant::Recalled {
                recalled(&mut guard);
            }
            (conn.tx() != Tx::Vi && !holds_back(&mut guard, fd)) || patience.is_over(&guard)
        };
        if !done {
            let _ = futex::wait(bell.word(), before, Some(STEP_NS));
        }
        if done || stream::anchor_has_ended(fd) {
            return;
        }
    }
}

/// The progress thread's pause: short while bytes wait for room on TCP.
pub(crate) fn pause() -> Option<u64> {
    PUMPING.load(Ordering::Relaxed).then_some(PUMP_NS)
}

/// Whether a peer wants something of that connection.
fn is_wanted(conn: &Conn) -> bool {
    if conn.phase() != Phase::Attached || conn.has(flag::DAMAGED) {
        return false;
    }
    let Some(guard) = conn.attached() else { return false };
    is_asked(&guard)
        || match conn.tx() {
            Tx::Vi => {
                let path = &guard.endpoint_ref().tx.direction().path;
                Grant::from_word(load(path, word::GRANT)) == Grant::Recalled
            }
            Tx::Back => {
                let path = &guard.endpoint_ref().tx.direction().path;
                let grant = Grant::from_word(load(path, word::GRANT));
                let is_asked_for = load(path, word::SWITCH) == CANCELLED
                    || path::owed(grant, load(path, word::RETURNED)) != Owed::Refuse;
                conn.has(flag::LEFT_VI) && !conn.has(flag::PUMPED) && is_asked_for
            }
            Tx::Tcp => false,
        }
}

/// Whether the peer wants us to go back to TCP.
fn is_asked(guard: &Guard<'_>) -> bool {
    !guard.conn.has(flag::RETREATING)
        && load(&guard.endpoint_ref().rx.direction().path, word::ASKED) != 0
}

/// The progress thread: answers recalls, and moves what is unread on VIs that have been left.
pub(crate) fn serve() {
    let mut wanted = Vec::new();
    pair::each(|_, pair| {
        pair.each_conn(|index| {
            if family::conn(index).is_some_and(is_wanted) {
                wanted.push(index);
            }
        });
    });
    let mut left = false;
    if !wanted.is_empty() {
        table::for_each_conn(|fd, at| {
            if !wanted.contains(&at.index) {
                return;
            }
            let Some(mut guard) = at.attached() else { return };
            if is_asked(&guard) {
                drop(guard);
                super::now(fd, at, super::Cause::Peer);
                return;
            }
            let path = &guard.endpoint_ref().tx.direction().path;
            if Grant::from_word(load(path, word::GRANT)) == Grant::Recalled {
                recalled(&mut guard);
            }
            left |= holds_back(&mut guard, fd);
            drop(guard);
            listeners::tell_own(at.conn);
        });
    }
    PUMPING.store(left, Ordering::Relaxed);
}
