//! Notifies the ready lists of either side that a connection has an event, and wakes their owners if they sleep.

use super::doorbells::doorbell;
use super::notification_sockets;
use super::table::of;
use super::{Pair, SideIndex};
use crate::conn::Guard;
use core::sync::atomic::Ordering;
use sovia_ring::layout::DOORBELLS;
use sovia_ring::ready_list::WakeWord;
use sovia_sys::call;

/// Index of the ready list that a NIC uses in each segment.
const NIC_READY_LIST: u32 = 0;

/// Sets the connection's bit in the peer's ready lists that the bitmap `ready_lists` names. Wakes the owners of
/// these lists if they sleep.
#[inline]
pub(crate) fn notify(guard: &Guard<'_>, ready_lists: u32) {
    if let Some(pair) = of(guard) {
        let vi = guard.conn.vi.load(Ordering::Relaxed);
        pair.mark(pair.side ^ 1, vi, ready_lists, |doorbell| pair.ring(doorbell));
    }
}

/// Sets the connection's bit in the ready lists of this process and its family that the bitmap `ready_lists` names.
/// Wakes the owners of these lists if they sleep.
pub(crate) fn notify_own(guard: &Guard<'_>, ready_lists: u32) {
    if let Some(pair) = of(guard) {
        let vi = guard.conn.vi.load(Ordering::Relaxed);
        pair.mark(pair.side, vi, ready_lists, |index| {
            if let Some(fd) = doorbell(index as usize) {
                let _ = call::write(fd, &1u64.to_ne_bytes());
            }
        });
    }
}

impl Pair {
    /// Notifies the peer of a change on a VI, if the peer is a NIC. A peer that is not a NIC needs no notification
    /// of such a change.
    pub(crate) fn notify_nic(&self, vi: u32) {
        if self.is_nic {
            self.mark(self.side ^ 1, vi, 1 << NIC_READY_LIST, |doorbell| self.ring(doorbell));
        }
    }

    #[inline]
    fn mark(&self, side: SideIndex, vi: u32, mut ready_lists: u32, mut ring: impl FnMut(u32)) {
        while ready_lists != 0 {
            let index = ready_lists.trailing_zeros();
            ready_lists &= ready_lists - 1;
            // SYNC: `note` stores the time before `notify_after` sets the VI's bit with SeqCst. The thread that takes
            // the bit with acquire order then reads this time or a later one.
            let note = || self.towards(side, vi).note_mark();
            if let Some(doorbell) = self.segment.ready_list(side, index).notify_after(vi, note) {
                ring(doorbell);
            }
        }
    }

    /// Returns the time, in ticks, at which a VI's bit was last set in a ready list of this side.
    #[inline]
    pub(crate) fn marked(&self, vi: u32) -> u64 {
        self.towards(self.side, vi).marked()
    }

    /// Returns the futex word that also holds the time at which the VI's bit was last set in a ready list of
    /// `side`.
    fn towards(&self, side: SideIndex, vi: u32) -> &WakeWord {
        &self.segment.direction(vi, side ^ 1).wake_word
    }

    /// Notifies the peer by its doorbell with this index, or by the notification socket in place of this doorbell.
    pub(crate) fn ring(&self, index: u32) {
        if let Some(doorbells) = self.doorbells.get() {
            crate::stats::rang();
            let doorbell = &doorbells[index as usize % DOORBELLS];
            if self.other_user.is_some() {
                notification_sockets::ring(doorbell);
            } else {
                let _ = call::write(doorbell.raw(), &1u64.to_ne_bytes());
            }
        }
    }
}
