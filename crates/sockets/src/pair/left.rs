//! Pairs that have been taken out of the table, because their peers have died or this process has left them. Each
//! pair stays mapped until no thread uses it.

use super::table::{CHANGE, TABLE, TOP};
use super::{OF_ONE_USER, OUT, Pair, lent};
use crate::peers;
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::hazard;
use sovia_sync::{RobustBox, rank};
use std::sync::Arc;

/// Nanoseconds between two checks by the progress thread, while threads still use pairs that are out of the table.
const LOOK_NS: u64 = 100_000_000;

per_engine! {
    static LEFT: RobustBox<Vec<Arc<Pair>>, { rank::PAIRS_LEFT }> = RobustBox::new(Vec::new());
}

/// Returns the nanoseconds until the progress thread must check again, or `None` if no pair waits to be unmapped.
pub(crate) fn pause() -> Option<u64> {
    LEFT.with(|left| !left.is_empty()).then_some(LOOK_NS)
}

/// Takes a pair out of the table and leaves the pair, if the pair is on offer and no connection waits for its
/// answer. Calls `forget` with the pair.
pub(crate) fn leave_unanswered(index: u32, forget: impl Fn(*const Pair)) {
    let change = CHANGE.guard();
    let slot = &TABLE[index as usize];
    // SAFETY: the pointer is null or from `Arc::into_raw`. The table's reference is dropped only under `CHANGE`,
    // which this thread holds.
    let pair = unsafe { slot.load(Ordering::Acquire).as_ref() };
    if !pair.is_some_and(|pair| pair.is_on_offer() && pair.take_out()) {
        return;
    }
    let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
    drop(change);
    // SAFETY: the pointer came from `Arc::into_raw`. This thread took the pointer out of the table by a swap, and
    // so owns the table's reference.
    let pair = unsafe { Arc::from_raw(raw.cast_const()) };
    leave(&pair, forget);
    unmap(vec![pair]);
}

per_engine! {
    /// Number of pairs that may be added before the next [`collect`].
    static ROOM: AtomicU32 = AtomicU32::new(ROOM_LEAST);
}

/// Minimum of [`ROOM`] after a [`collect`], and its value at the start.
const ROOM_LEAST: u32 = 8;

/// Makes room for another pair. Calls [`collect`] once as many pairs have been added as the last collection left in
/// the table. Not each call collects, because a collection takes system calls for each pair, and most peers are
/// still alive.
pub(crate) fn make_room(forget: impl Fn(*const Pair)) {
    let less = |room: u32| room.checked_sub(1);
    // From [`OF_ONE_USER`] pairs on, [`super::add`] may refuse a pair, so collect at each call.
    let is_full = TOP.load(Ordering::Acquire) as usize >= OF_ONE_USER;
    if is_full || ROOM.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_err() {
        peers::look();
        let _ = collect(forget);
    }
}

/// Takes pairs of dead peers out of the table, unless a connection is on such a pair or has requested a VI of the
/// pair. A peer is dead if the last check has found so. Unmaps those pairs that no thread uses. Calls `forget` with
/// each pair that is taken out. Returns true if connections still have requests to a dead peer.
pub(crate) fn collect(forget: impl Fn(*const Pair)) -> bool {
    let (mut out, mut left, mut are_asked) = (Vec::new(), 0, false);
    let dead = peers::dead();
    let change = CHANGE.guard();
    for slot in &TABLE[..TOP.load(Ordering::Acquire) as usize] {
        // SAFETY: the pointer is null or from `Arc::into_raw`. The table's reference is dropped only under `CHANGE`,
        // which this thread holds.
        let Some(pair) = (unsafe { slot.load(Ordering::Acquire).as_ref() }) else { continue };
        let is_there = pair.peer_is_among_the_living(&dead);
        if !is_there {
            pair.reclaim_all();
        }
        if !is_there && pair.take_out() {
            let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: the pointer came from `Arc::into_raw`. This thread took the pointer out of the table by a
            // swap, and so owns the table's reference.
            out.push(unsafe { Arc::from_raw(raw.cast_const()) });
        } else {
            are_asked |= !is_there && pair.reserved.load(Ordering::Acquire) != 0;
            left += 1;
        }
    }
    drop(change);
    ROOM.store(ROOM_LEAST.max(left), Ordering::Release);
    for pair in &out {
        forget(Arc::as_ptr(pair));
        pair.leave_instances();
    }
    unmap(out);
    are_asked
}

/// Takes all pairs out of the table and leaves them for good, because this process leaves all its peers. Calls
/// `forget` with each pair. The caller must have moved all connections off their VIs.
pub(crate) fn leave_all(forget: impl Fn(*const Pair)) {
    let mut out = Vec::new();
    lent::forget();
    let change = CHANGE.guard();
    for slot in &TABLE[..TOP.load(Ordering::Acquire) as usize] {
        let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if !raw.is_null() {
            // SAFETY: the pointer came from `Arc::into_raw`. This thread took the pointer out of the table by a
            // swap, and so owns the table's reference.
            out.push(unsafe { Arc::from_raw(raw.cast_const()) });
        }
    }
    drop(change);
    for pair in &out {
        pair.refs.fetch_or(OUT, Ordering::AcqRel);
        leave(pair, &forget);
    }
    unmap(out);
}

impl Pair {
    /// Bars further connections from attaching to the pair or requesting its VIs. Returns false if a connection is
    /// attached or has requested a VI.
    fn take_out(&self) -> bool {
        self.refs.compare_exchange(0, OUT, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Leaves a pair for good, after the pair has been taken out of the table.
fn leave(pair: &Arc<Pair>, forget: impl Fn(*const Pair)) {
    forget(Arc::as_ptr(pair));
    pair.leave_instances();
    pair.leave_for_good();
}

/// Drops pairs that are out of the table and that no thread uses, and so unmaps their segments. A pair that a
/// thread still uses is dropped later.
fn unmap(more: Vec<Arc<Pair>>) {
    let unused = LEFT.with(|left| {
        left.extend(more);
        if left.is_empty() || !hazard::settle() {
            return Vec::new();
        }
        let (used, unused) = core::mem::take(left)
            .into_iter()
            .partition::<Vec<_>, _>(|pair| hazard::is_used(Arc::as_ptr(pair).addr()));
        *left = used;
        unused
    });
    drop(unused);
}

/// Called before fork: locks the list of pairs that wait to be unmapped.
pub(super) fn hold() {
    LEFT.hold();
}

/// Called after fork, in parent and child: unlocks the list of pairs that wait to be unmapped.
pub(super) fn release() {
    LEFT.release();
}
