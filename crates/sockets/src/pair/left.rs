//! Pairs whose peers have died.

use super::{CHANGE, Pair, TABLE, TOP};
use crate::robust::RobustBox;
use core::sync::atomic::Ordering;
use sovia_sys::clock;
use std::sync::Arc;

/// How long a segment that nobody should use any more stays mapped: a thread may have looked up a
/// waiter in it and be about to look whether it has news.
const GRACE_NS: u64 = 1_000_000_000;
static DEAD: RobustBox<Vec<(u64, Arc<Pair>)>> = RobustBox::new(Vec::new());

/// How long until something that is dead may go; `None` if nothing is.
pub(crate) fn burial() -> Option<u64> {
    DEAD.with(|dead| (!dead.is_empty()).then_some(GRACE_NS + GRACE_NS / 10))
}

/// Takes pairs out of the table whose peers have died and that no connection uses any more, and
/// unmaps those that have been out for the grace time. `forget` is told of each pair that goes, before
/// its grace time begins.
pub(crate) fn collect(forget: impl Fn(*const Pair)) {
    let now = clock::now_ns();
    DEAD.with(|dead| dead.retain(|(since, _)| now - since < GRACE_NS));
    let mut dead = Vec::new();
    let change = CHANGE.guard();
    for slot in &TABLE[..TOP.load(Ordering::Acquire) as usize] {
        // SAFETY: as in `get`.
        let Some(pair) = (unsafe { slot.load(Ordering::Acquire).as_ref() }) else { continue };
        if pair.refs.load(Ordering::Acquire) == 0 && !pair.peer_is_there() {
            let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: it came from Arc::into_raw, and the table's count of it goes with its place.
            dead.push(unsafe { Arc::from_raw(raw.cast_const()) });
        }
    }
    drop(change);
    for pair in dead {
        forget(Arc::as_ptr(&pair));
        DEAD.with(|list| list.push((now, pair)));
    }
}

/// Takes every pair out of the table: this process leaves its peers. `forget` is told of each. The
/// caller has taken all connections off their VIs, and unmaps the segments.
pub(crate) fn leave_all(forget: impl Fn(*const Pair)) {
    let mut left = Vec::new();
    CHANGE.lock();
    for slot in &TABLE[..TOP.load(Ordering::Acquire) as usize] {
        let raw = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if !raw.is_null() {
            // SAFETY: it came from Arc::into_raw, and the table's count of it goes with its place.
            left.push(unsafe { Arc::from_raw(raw.cast_const()) });
        }
    }
    CHANGE.unlock();
    let now = clock::now_ns();
    for pair in left {
        forget(Arc::as_ptr(&pair));
        pair.leave_for_good();
        DEAD.with(|list| list.push((now, pair)));
    }
}

/// Around fork: see [`super::hold`].
pub(super) fn hold() {
    DEAD.hold();
}

/// After fork, in both.
pub(super) fn release() {
    DEAD.release();
}
