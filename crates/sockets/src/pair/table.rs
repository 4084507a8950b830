//! Table of pairs, and the hazards that keep a pair mapped while a thread uses it.

use super::Pair;
use crate::conn::Guard;
use crate::per_engine::{per_engine, per_engine_tables};
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use sovia_sync::critical_section::{self, Inside};
use sovia_sync::hazard::{self, Hazard, Waits};
use sovia_sync::{Local, RobustLock, rank};
use std::sync::Arc;

/// Maximum number of pairs of a process at a time.
pub(super) const PAIRS: usize = 1024;

per_engine_tables! {
    pub(super) static TABLE: [AtomicPtr<Pair>; PAIRS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; PAIRS];
}
per_engine! {
    /// One above the highest index of a pair in the table so far.
    pub(super) static TOP: AtomicU32 = AtomicU32::new(0);
    /// Lock that guards additions to the table and removals.
    pub(super) static CHANGE: RobustLock<Local, { rank::PAIRS }> = RobustLock::new();
}

/// A pair of the table that stays mapped while this object lives. Meanwhile no signal handler of the program runs
/// on this thread, so no `longjmp` can skip the object's destructor.
#[derive(Debug)]
pub struct Using {
    pair: NonNull<Pair>,
    _hazard: Hazard,
    _inside: Inside,
}

impl Deref for Using {
    type Target = Pair;

    #[inline]
    fn deref(&self) -> &Pair {
        // SAFETY: the pair was in the table after this thread had published the hazard. A pair is dropped only
        // after it has been taken out of the table, and while no hazard names the pair (`left`).
        unsafe { self.pair.as_ref() }
    }
}

/// Returns the pair with this index.
#[inline]
pub fn get(index: u32) -> Option<Using> {
    let slot = TABLE.get(index as usize)?;
    let inside = critical_section::inside();
    loop {
        let pair = NonNull::new(slot.load(Ordering::Acquire))?;
        let hazard = hazard::publish(pair.addr().get());
        if slot.load(Ordering::Acquire) == pair.as_ptr() {
            return Some(Using { pair, _hazard: hazard, _inside: inside });
        }
    }
}

/// Returns the pair of a connection that this process has on a VI. Needs no hazard: a pair stays in the table while
/// a connection is on one of its VIs. The connection stays on its VI while the caller holds the connection's lock.
#[inline]
pub(crate) fn of<'g>(guard: &'g Guard<'_>) -> Option<&'g Pair> {
    let slot = TABLE.get(guard.conn.pair.load(Ordering::Relaxed) as usize)?;
    // SAFETY: the pointer is null or from `Arc::into_raw`. The table drops its reference only after the last of the
    // pair's connections has been counted out (`Pair::vacate`, `Pair::leave`). A connection is counted out only after
    // the last use of its guard.
    unsafe { slot.load(Ordering::Acquire).as_ref() }
}

/// Keeps a connection's pair mapped while a thread waits for the connection without the connection's lock.
#[inline]
pub(crate) fn keep(guard: &Guard<'_>, waits: &Waits) {
    if let Some(pair) = of(guard) {
        waits.keep(core::ptr::from_ref(pair).addr());
    }
}

/// Calls `f` with every pair and its index.
pub(crate) fn each(mut f: impl FnMut(u32, &Pair)) {
    let _inside = critical_section::inside();
    // One hazard serves for all pairs in turn, because an acceptor looks at all its pairs in each of its first
    // receives.
    let mut hazard: Option<Hazard> = None;
    for (index, slot) in (0..TOP.load(Ordering::Acquire)).zip(TABLE.iter()) {
        while let Some(pair) = NonNull::new(slot.load(Ordering::Acquire)) {
            let place = pair.addr().get();
            match &mut hazard {
                Some(hazard) => hazard.change_to(place),
                None => hazard = Some(hazard::publish(place)),
            }
            if slot.load(Ordering::Acquire) == pair.as_ptr() {
                // SAFETY: the pair was in the table after this thread had published the hazard, as for `Using`.
                f(index, unsafe { pair.as_ref() });
                break;
            }
        }
    }
}

pub(super) fn insert(pair: Pair) -> Option<u32> {
    let pair = Arc::new(pair);
    CHANGE.lock();
    let free = TABLE.iter().position(|p| p.load(Ordering::Acquire).is_null());
    if let Some(index) = free {
        TABLE[index].store(Arc::into_raw(pair).cast_mut(), Ordering::Release);
        TOP.fetch_max(index as u32 + 1, Ordering::AcqRel);
    }
    CHANGE.unlock();
    free.map(|index| index as u32)
}

/// Adds a pair at an index of a table that is still empty there. Called at the program's start.
pub(super) fn insert_at(index: u32, pair: Pair) -> bool {
    let Some(slot) = TABLE.get(index as usize) else { return false };
    let raw = Arc::into_raw(Arc::new(pair)).cast_mut();
    let (success, failure) = (Ordering::Release, Ordering::Relaxed);
    let inserted = slot.compare_exchange(core::ptr::null_mut(), raw, success, failure).is_ok();
    if inserted {
        TOP.fetch_max(index + 1, Ordering::AcqRel);
    } else {
        // SAFETY: the pointer is from `Arc::into_raw` above, and the table did not take it.
        drop(unsafe { Arc::from_raw(raw.cast_const()) });
    }
    inserted
}

/// Returns the pair with this index. The pair stays mapped while the result lives.
pub(crate) fn share(index: u32) -> Option<Arc<Pair>> {
    CHANGE.lock();
    let raw =
        TABLE.get(index as usize).map_or(core::ptr::null_mut(), |p| p.load(Ordering::Acquire));
    let shared = (!raw.is_null()).then(|| {
        // SAFETY: the pointer is from `Arc::into_raw`. The table's reference cannot be dropped while this thread
        // holds `CHANGE`.
        unsafe {
            Arc::increment_strong_count(raw.cast_const());
            Arc::from_raw(raw.cast_const())
        }
    });
    CHANGE.unlock();
    shared
}

/// Returns true if a pair is still in the table.
pub(crate) fn is_current(pair: &Arc<Pair>) -> bool {
    let raw = Arc::as_ptr(pair).cast_mut();
    TABLE[..TOP.load(Ordering::Acquire) as usize].iter().any(|p| p.load(Ordering::Acquire) == raw)
}
