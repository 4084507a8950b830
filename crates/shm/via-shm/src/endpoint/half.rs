//! Where one direction of a VI lies, as either half of an endpoint finds it.

use crate::layout::Direction;
use crate::pool::POOL;
use crate::range::{Area, Bulk, Range};
use crate::remains::Remains;
use crate::ring::{SLOTS, Slot};
use crate::segment::{Segment, SideIndex};
use core::ptr::NonNull;

/// A direction's words, entries and bytes, in a segment that stays mapped ([`super::Endpoint::new`]).
#[derive(Debug)]
#[repr(C)]
pub struct Half {
    pub(super) direction: NonNull<Direction>,
    slots: NonNull<[Slot; SLOTS as usize]>,
    pub(super) pool: NonNull<u8>,
    remains: Remains,
}

impl Half {
    /// The direction of `vi` in which `from` sends.
    ///
    /// # Safety
    /// The contract of [`super::Endpoint::new`].
    pub(super) unsafe fn new(segment: &Segment, vi: u32, from: SideIndex) -> Half {
        Half {
            direction: NonNull::from(segment.direction(vi, from)),
            slots: NonNull::from(segment.slots(vi, from)),
            pool: NonNull::new(segment.pool(vi, from)).unwrap_or(NonNull::dangling()),
            remains: Remains(NonNull::from(segment.remains(vi, from))),
        }
    }

    /// The direction's control block.
    #[inline]
    pub fn direction(&self) -> &Direction {
        // SAFETY: `new`'s contract keeps the segment mapped; the block is all atomics.
        unsafe { self.direction.as_ref() }
    }

    #[inline]
    pub(super) fn slot(&self, n: u32) -> &Slot {
        // SAFETY: as for `direction`.
        unsafe { &self.slots.as_ref()[(n % SLOTS) as usize] }
    }

    /// The upper layer's area of this direction.
    pub fn area(&self) -> Area {
        Range(NonNull::new(self.pool.as_ptr().wrapping_add(POOL as usize)).unwrap_or(self.pool))
    }

    /// The pool and the area of this direction as one piece.
    pub fn bulk(&self) -> Bulk {
        Range(self.pool)
    }

    /// What the reader of this direction has left unread.
    pub fn remains(&self) -> Remains {
        self.remains
    }
}
