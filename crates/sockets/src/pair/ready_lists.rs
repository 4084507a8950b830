//! Allocation of the ready lists on one side of a segment. Forked processes share these lists.

use super::Pair;
use crate::per_engine::per_engine;
use crate::process_slots::{self, FamilyProcess};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_ring::layout::READY_LISTS;
use sovia_ring::ready_list::ReadyList;

per_engine! {
    /// Number of forks that lie between the family's first process and this one.
    static FORKS: AtomicU32 = AtomicU32::new(0);
}

/// Makes a forked child use no ready list of its parent. Writes to no pair, because the kernel copies each page that is
/// written after a fork.
pub(super) fn forked() {
    FORKS.fetch_add(1, Ordering::Release);
}

/// Returns the ready lists in a value of [`Pair::ready_lists`], if this process has stored it.
fn own(word: u64) -> u32 {
    if (word >> 32) as u32 == FORKS.load(Ordering::Acquire) { word as u32 } else { 0 }
}

impl Pair {
    /// Returns the bitmap of the ready lists that this process uses.
    fn own_ready_lists(&self) -> u32 {
        own(self.ready_lists.load(Ordering::Acquire))
    }

    /// Changes the bitmap of the ready lists that this process uses. Returns the former bitmap.
    pub(super) fn change_ready_lists(&self, change: impl Fn(u32) -> u32) -> u32 {
        let forks = u64::from(FORKS.load(Ordering::Acquire)) << 32;
        let next = |word| Some(forks | u64::from(change(own(word))));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.ready_lists.fetch_update(success, failure, next).map_or(0, own)
    }

    /// Takes a free ready list on this process's side, and returns the list's index. `doorbell` is the doorbell that
    /// wakes the list's owner.
    pub(crate) fn take_ready_list(&self, doorbell: u32) -> Option<u32> {
        let index = self.free_ready_list().or_else(|| self.dead_ones_ready_list())?;
        self.change_ready_lists(|used| used | 1 << index);
        self.segment.ready_list(self.side, index).reset(doorbell);
        Some(index)
    }

    fn free_ready_list(&self) -> Option<u32> {
        let side = self.segment.side(self.side);
        let mut bits = side.taken.load(Ordering::Acquire);
        loop {
            let index = (!(bits | self.own_ready_lists())).trailing_zeros();
            if index >= READY_LISTS {
                return None;
            }
            let now = bits | 1 << index;
            match side.taken.compare_exchange(bits, now, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    side.takers[index as usize]
                        .store(process_slots::me().word(), Ordering::Release);
                    return Some(index);
                }
                Err(seen) => bits = seen,
            }
        }
    }

    /// Takes over a ready list of a relative that died without freeing the list.
    fn dead_ones_ready_list(&self) -> Option<u32> {
        let me = process_slots::me().word();
        let side = self.segment.side(self.side);
        (0..READY_LISTS).find(|&index| {
            let taker = &side.takers[index as usize];
            let is_taken = side.taken.load(Ordering::Acquire) >> index & 1 != 0;
            let seen = taker.load(Ordering::Acquire);
            let is_ours = self.own_ready_lists() >> index & 1 != 0;
            is_taken
                && seen != 0
                && seen != me
                && !is_ours
                && !process_slots::lives(FamilyProcess::from_word(seen))
                && taker.compare_exchange(seen, me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Frees a ready list, so that another process of the family can take the list.
    pub(crate) fn give_ready_list(&self, index: u32) {
        self.change_ready_lists(|used| used & !(1 << index));
        let side = self.segment.side(self.side);
        side.takers[index as usize].store(0, Ordering::Release);
        side.taken.fetch_and(!(1 << index), Ordering::AcqRel);
    }

    /// Returns the ready list with this index on this process's side of the segment.
    pub(crate) fn ready_list(&self, index: u32) -> &ReadyList {
        self.segment.ready_list(self.side, index)
    }
}
