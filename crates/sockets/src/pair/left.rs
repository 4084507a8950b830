//! Pairs that have been taken out of the table, because their peers have died or this process has left them. Each
//! pair stays mapped until no thread uses it.

use super::table::{CHANGE, TABLE, TOP};
use super::{OF_ONE_USER, OUT, Pair, lent};
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::hazard;
use sovia_sync::{RobustBox, rank};
use std::sync::Arc;

/// Nanoseconds between two checks by the progress thread if threads still use such pairs.
const LOOK_NS: u64 = 100_000_000;

per_engine! {
    static LEFT: RobustBox<Vec<Arc<Pair>>, { rank::PAIRS_LEFT }> = RobustBox::new(Vec::new());
}

/// Returns the time until the progress thread must check again, or `None` if no pair is left to unmap.
pub(crate) fn pause() -> Option<u64> {
    LEFT.with(|left| !left.is_empty()).then_some(LOOK_NS)
}

/// Takes a pair out of the table and leaves it, if it is on offer and no connection waits for it. `forget` as for
/// [`collect`].
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
    // SAFETY: the pointer came from `Arc::into_raw`. This thread took it out of the table by a swap, and so owns the
    // table's reference.
    let pair = unsafe { Arc::from_raw(raw.cast_const()) };
    leave(&pair, forget);
    unmap(vec![pair]);
}

per_engine! {
    /// Number of pairs that may be added before the next [`collect`].
    static ROOM: AtomicU32 = AtomicU32::new(ROOM_LEAST);
}

/// Lowest number of pairs that may be added before the next [`collect`].
const ROOM_LEAST: u32 = 8;

/// Prepares for another pair: calls [`collect`] once as many pairs have been added as were left. A collection takes
/// system calls for each pair, and most peers live on. The progress thread learns of peers that die.
pub(crate) fn make_room(forget: impl Fn(*const Pair)) {
    let less = |room: u32| room.checked_sub(1);
    // From this number of pairs on, [`super::add`] may refuse one.
    let is_full = TOP.load(Ordering::Acquire) as usize >= OF_ONE_USER;
    if is_full || ROOM.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_err() {
        let _ = collect(forget);
    }
}

/// Takes pairs of dead peers out of the table, unless a connection is on such a pair or has requested one of its VIs.
/// Unmaps those pairs that no thread uses. `forget` is called for each pair that goes. Returns true if connections
/// still have requests to a dead peer.
pub(crate) fn collect(forget: impl Fn(*const Pair)) -> bool {
    let (mut out, mut left, mut are_asked) = (Vec::new(), 0, false);
    let change = CHANGE.guard();
    for slot in &TABLE[..TOP.load(Ordering::Acquire) as usize] {
        // SAFETY: the pointer is null or from `Arc::into_raw`. The table's reference is dropped only under `CHANGE`,
        // which this thread holds.
        let Some(pair) = (unsafe { slot.load(Ordering::Acquire).as_ref() }) else { continue };
        let is_there = pair.peer_is_there();
        if !is_there {
            pair.reclaim_all();
        }
        if !is_there && pair.take_out() {
            let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: the pointer came from `Arc::into_raw`. This thread took it out of the table by a swap, and so
            // owns the table's reference.
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

/// Takes every pair out of the table: this process leaves its peers. `forget` is called for each pair. The caller has
/// moved all connections off their VIs, and unmaps the segments.
pub(crate) fn leave_all(forget: impl Fn(*const Pair)) {
    let mut out = Vec::new();
    lent::forget();
    let change = CHANGE.guard();
    for slot in &TABLE[..TOP.load(Ordering::Acquire) as usize] {
        let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if !raw.is_null() {
            // SAFETY: the pointer came from `Arc::into_raw`. This thread took it out of the table by a swap, and so
            // owns the table's reference.
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
    /// attached or has requested one.
    fn take_out(&self) -> bool {
        self.refs.compare_exchange(0, OUT, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Leaves a pair that has been taken out of the table.
fn leave(pair: &Arc<Pair>, forget: impl Fn(*const Pair)) {
    forget(Arc::as_ptr(pair));
    pair.leave_instances();
    pair.leave_for_good();
}

/// Drops pairs that are no longer in the table and that no thread uses. Pairs in use are dropped later.
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

/// Fork prepare: see [`super::hold`].
pub(super) fn hold() {
    LEFT.hold();
}

/// After fork, in parent and child.
pub(super) fn release() {
    LEFT.release();
}
