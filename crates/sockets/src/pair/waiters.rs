//! The waiters of a segment's side, which forked processes share.

use super::Pair;
use crate::members::{self, Member};
use core::sync::atomic::Ordering;
use via_shm::layout::WAITERS;
use via_shm::waiter::Waiter;

impl Pair {
    /// Takes a waiter on our side; `door` is the doorbell that wakes it.
    pub(crate) fn take_waiter(&self, door: u32) -> Option<u32> {
        let index = self.free_waiter().or_else(|| self.dead_ones_waiter())?;
        self.waiters.fetch_or(1 << index, Ordering::AcqRel);
        self.segment.waiter(self.side, index).reset(door);
        Some(index)
    }

    fn free_waiter(&self) -> Option<u32> {
        let side = self.segment.side(self.side);
        let mut bits = side.taken.load(Ordering::Acquire);
        loop {
            let index = (!(bits | self.waiters.load(Ordering::Acquire))).trailing_zeros();
            if index >= WAITERS {
                return None;
            }
            let now = bits | 1 << index;
            match side.taken.compare_exchange(bits, now, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    side.takers[index as usize].store(members::me().word(), Ordering::Release);
                    return Some(index);
                }
                Err(seen) => bits = seen,
            }
        }
    }

    /// One that a relative had taken that has died, and could not give it back.
    fn dead_ones_waiter(&self) -> Option<u32> {
        let me = members::me().word();
        let side = self.segment.side(self.side);
        (0..WAITERS).find(|&index| {
            let taker = &side.takers[index as usize];
            let is_taken = side.taken.load(Ordering::Acquire) >> index & 1 != 0;
            let seen = taker.load(Ordering::Acquire);
            let is_ours = self.waiters.load(Ordering::Acquire) >> index & 1 != 0;
            is_taken
                && seen != 0
                && seen != me
                && !is_ours
                && !members::lives(Member::from_word(seen))
                && taker.compare_exchange(seen, me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Gives a waiter back.
    pub(crate) fn give_waiter(&self, index: u32) {
        self.waiters.fetch_and(!(1 << index), Ordering::AcqRel);
        let side = self.segment.side(self.side);
        side.takers[index as usize].store(0, Ordering::Release);
        side.taken.fetch_and(!(1 << index), Ordering::AcqRel);
    }

    /// The waiter of that number on our side.
    pub(crate) fn waiter(&self, index: u32) -> &Waiter {
        self.segment.waiter(self.side, index)
    }
}
