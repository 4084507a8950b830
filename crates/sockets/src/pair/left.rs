//! Pairs that have been taken out of the table: their peers have died, or this process has left them. Each
//! stays mapped until no thread uses it any more.

use super::table::{CHANGE, TABLE, TOP};
use super::{OF_ONE_USER, OUT, Pair, lent};
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::hazard;
use sovia_sync::{RobustBox, rank};
use std::sync::Arc;

/// How often the progress thread looks whether they are used.
const LOOK_NS: u64 = 100_000_000;

per_engine! {
    static LEFT: RobustBox<Vec<Arc<Pair>>, { rank::PAIRS_LEFT }> = RobustBox::new(Vec::new());
}

/// How long until the progress thread is to look at them; `None` if there are none.
pub(crate) fn pause() -> Option<u64> {
    LEFT.with(|left| !left.is_empty()).then_some(LOOK_NS)
}

/// Takes a pair out of the table that is on offer and that no connection waits for, and leaves it. `forget` as for [`collect`].
pub(crate) fn leave_unanswered(index: u32, forget: impl Fn(*const Pair)) {
    let change = CHANGE.guard();
    let slot = &TABLE[index as usize];
    // SAFETY: null, or from Arc::into_raw; the table's count of it goes only under the lock.
    let pair = unsafe { slot.load(Ordering::Acquire).as_ref() };
    if !pair.is_some_and(|pair| pair.is_on_offer() && pair.take_out()) {
        return;
    }
    let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
    drop(change);
    // SAFETY: it came from Arc::into_raw, and the table's count of it goes with its place.
    let pair = unsafe { Arc::from_raw(raw.cast_const()) };
    leave(&pair, forget);
    unmap(vec![pair]);
}

per_engine! {
    /// How many pairs may be added before the next one [`collect`]s.
    static ROOM: AtomicU32 = AtomicU32::new(ROOM_LEAST);
}

/// Pairs that may be added without a look at the others.
const ROOM_LEAST: u32 = 8;

/// Before a pair is added: [`collect`]s once as many have been added as there were. Each pair takes system calls, and most
/// peers live on; of those that die the progress thread learns.
pub(crate) fn make_room(forget: impl Fn(*const Pair)) {
    let less = |room: u32| room.checked_sub(1);
    // From where on places may be refused.
    let is_full = TOP.load(Ordering::Acquire) as usize >= OF_ONE_USER;
    if is_full || ROOM.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_err() {
        let _ = collect(forget);
    }
}

/// Takes pairs out of the table whose peers have died, and on which no connection is or has asked for a VI. Unmaps
/// those that no thread uses. `forget` is called for each pair that goes. Returns true if connections still ask a peer that
/// has died.
pub(crate) fn collect(forget: impl Fn(*const Pair)) -> bool {
    let (mut out, mut left, mut are_asked) = (Vec::new(), 0, false);
    let change = CHANGE.guard();
    for slot in &TABLE[..TOP.load(Ordering::Acquire) as usize] {
        // SAFETY: null, or from Arc::into_raw; the table's count of it goes only under the lock.
        let Some(pair) = (unsafe { slot.load(Ordering::Acquire).as_ref() }) else { continue };
        let is_there = pair.peer_is_there();
        if !is_there {
            pair.reclaim_all();
        }
        if !is_there && pair.take_out() {
            let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: it came from Arc::into_raw, and the table's count of it goes with its place.
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

/// Takes every pair out of the table: this process leaves its peers. `forget` is called for each. The
/// caller has taken all connections off their VIs, and unmaps the segments.
pub(crate) fn leave_all(forget: impl Fn(*const Pair)) {
    let mut out = Vec::new();
    lent::forget();
    let change = CHANGE.guard();
    for slot in &TABLE[..TOP.load(Ordering::Acquire) as usize] {
        let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if !raw.is_null() {
            // SAFETY: it came from Arc::into_raw, and the table's count of it goes with its place.
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
    /// Has no further connection attached, and none ask. False if one is attached, or has asked.
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

/// Drops pairs that cannot be found any more, as far as no thread uses them; the others later.
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

/// Around fork: see [`super::hold`].
pub(super) fn hold() {
    LEFT.hold();
}

/// After fork, in both.
pub(super) fn release() {
    LEFT.release();
}
