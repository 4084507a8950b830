//! Tells the ready lists of either side that a connection has news, and rings those asleep.

use super::bells;
use super::doors::door;
use super::table::of;
use super::{Pair, SideIndex};
use crate::conn::Guard;
use core::sync::atomic::Ordering;
use sovia_sys::call;
use via_shm::layout::DOORBELLS;
use via_shm::ready_list::Bell;

/// A NIC's ready list in each segment.
const NIC_READY_LIST: u32 = 0;

/// Tells ready lists of the peer that a connection has news for it; rings those asleep.
#[inline]
pub(crate) fn notify(guard: &Guard<'_>, ready_lists: u32) {
    if let Some(pair) = of(guard) {
        let vi = guard.conn.vi.load(Ordering::Relaxed);
        pair.mark(pair.side ^ 1, vi, ready_lists, |door| pair.ring(door));
    }
}

/// Tells ready lists of this process (and its family) that a connection has news.
pub(crate) fn notify_own(guard: &Guard<'_>, ready_lists: u32) {
    if let Some(pair) = of(guard) {
        let vi = guard.conn.vi.load(Ordering::Relaxed);
        pair.mark(pair.side, vi, ready_lists, |index| {
            if let Some(fd) = door(index as usize) {
                let _ = call::write(fd, &1u64.to_ne_bytes());
            }
        });
    }
}

impl Pair {
    /// Notifies a NIC that a VI has news for which no bell was rung. Other peers are not notified.
    pub(crate) fn tell_nic(&self, vi: u32) {
        if self.is_nic {
            self.mark(self.side ^ 1, vi, 1 << NIC_READY_LIST, |door| self.ring(door));
        }
    }

    #[inline]
    fn mark(&self, side: SideIndex, vi: u32, mut ready_lists: u32, mut ring: impl FnMut(u32)) {
        while ready_lists != 0 {
            let index = ready_lists.trailing_zeros();
            ready_lists &= ready_lists - 1;
            // SYNC: the time is stored before the mark, which the thread that takes it acquires.
            let note = || self.towards(side, vi).note_mark();
            if let Some(door) = self.segment.ready_list(side, index).notify_after(vi, note) {
                ring(door);
            }
        }
    }

    /// Returns when a VI was last marked for a ready list of this side, in ticks.
    #[inline]
    pub(crate) fn marked(&self, vi: u32) -> u64 {
        self.towards(self.side, vi).marked()
    }

    /// Returns where the time of a mark for a side stands.
    fn towards(&self, side: SideIndex, vi: u32) -> &Bell {
        &self.segment.direction(vi, side ^ 1).bell
    }

    /// Rings one of the peer's doorbells.
    pub(crate) fn ring(&self, index: u32) {
        if let Some(doors) = self.doors.get() {
            crate::stats::rang();
            let door = &doors[index as usize % DOORBELLS];
            if self.other_user.is_some() {
                bells::ring(door);
            } else {
                let _ = call::write(door.raw(), &1u64.to_ne_bytes());
            }
        }
    }
}
