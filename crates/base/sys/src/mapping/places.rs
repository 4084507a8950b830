//! Table of this crate's mappings, and with which processes each is shared.

use crate::call::{self, Result};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Entry of the table: one mapping of this crate.
pub(super) struct Place {
    /// Address of the mapping; 0 for a free entry.
    pub(super) base: AtomicUsize,
    pub(super) len: AtomicUsize,
    /// A [`Sharing`] as a number.
    sharing: AtomicUsize,
}

/// Processes that share a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// No process, or a fixed group of processes.
    Settled = 0,
    /// Processes that have the file.
    File = 1,
    /// Forked children.
    Family = 2,
    /// A thread is replacing the mapping's pages.
    Replaced = 3,
}

crate::tables! {
    /// Entries of the mappings. Some mappings are sparse and much larger than their used memory. So a call that
    /// populates all of the program's memory must leave them out.
    static PLACES: [Place; 2048] = [const {
        Place { base: AtomicUsize::new(0), len: AtomicUsize::new(0), sharing: AtomicUsize::new(0) }
    }; 2048];
    /// One above the highest entry that has been used.
    static TOP: AtomicUsize = AtomicUsize::new(0);
}

/// Returns the entries that have been used.
pub(super) fn used() -> &'static [Place] {
    &PLACES[..TOP.load(Ordering::Acquire)]
}

pub(super) fn note(base: usize, len: usize, sharing: Sharing) -> Result<()> {
    let free = PLACES.iter().position(|place| {
        place.base.compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    let index = free.ok_or(call::Errno::ENOMEM)?;
    PLACES[index].sharing.store(sharing as usize, Ordering::Release);
    // The mapping counts from the moment when it has a length.
    TOP.fetch_max(index + 1, Ordering::AcqRel);
    PLACES[index].len.store(len, Ordering::Release);
    Ok(())
}

pub(super) fn place_of(base: usize) -> Option<&'static Place> {
    used().iter().find(|place| place.base.load(Ordering::Acquire) == base)
}

impl Place {
    /// Returns true if the mapping has this kind of sharing. In this case no thread unmaps it until
    /// [`Place::settle`].
    pub(super) fn hold(&self, sharing: Sharing) -> bool {
        let (from, to) = (sharing as usize, Sharing::Replaced as usize);
        self.sharing.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(super) fn settle(&self, sharing: Sharing) {
        self.sharing.store(sharing as usize, Ordering::Release);
    }

    /// Waits until no thread replaces the mapping's pages, and prevents later replacements.
    fn await_settled(&self) {
        let is_settled = || {
            [Sharing::Settled, Sharing::File, Sharing::Family].into_iter().any(|sharing| {
                let (from, to) = (sharing as usize, Sharing::Settled as usize);
                self.sharing.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            })
        };
        while !is_settled() {
            call::sched_yield();
        }
    }
}

pub(super) fn forget(base: usize) {
    if let Some(place) = place_of(base) {
        place.await_settled();
        place.len.store(0, Ordering::Release);
        place.base.store(0, Ordering::Release);
    }
}

/// Calls `each` with the address and the length of each part of the range that lies in no mapping of this crate.
pub(crate) fn outside(from: usize, to: usize, mut each: impl FnMut(usize, usize)) {
    let mut at = from;
    while at < to {
        let mut end = to;
        let mut next = to;
        for place in used() {
            let len = place.len.load(Ordering::Acquire);
            let base = place.base.load(Ordering::Acquire);
            if len != 0 && base < end && base + len > at {
                end = base.max(at);
                next = (base + len).min(to);
            }
        }
        if end > at {
            each(at, end - at);
        }
        at = next;
    }
}

/// Calls `each` with the address and the length of every mapping of this crate.
pub(crate) fn each(mut each: impl FnMut(usize, usize)) {
    for place in used() {
        let len = place.len.load(Ordering::Acquire);
        if len != 0 {
            each(place.base.load(Ordering::Acquire), len);
        }
    }
}
