//! Where one direction of a VI lies, as each end finds it, and how far its sender may go.

use crate::Corrupt;
use crate::layout::Direction;
use crate::pool::POOL;
use crate::range::{Area, Bulk, Range};
use crate::ring::{SLOTS, Slot};
use crate::segment::{Segment, SideIndex};
use core::ptr::NonNull;

/// A direction's words, entries and bytes, in a segment that stays mapped.
#[derive(Debug)]
#[repr(C)]
pub struct Half {
    pub(crate) direction: NonNull<Direction>,
    slots: NonNull<[Slot; SLOTS as usize]>,
    pub(crate) pool: NonNull<u8>,
}

impl Half {
    /// The direction of `vi` in which `from` sends.
    ///
    /// # Safety
    /// The segment stays mapped as long as this, and what is made of it, is used.
    pub(crate) unsafe fn new(segment: &Segment, vi: u32, from: SideIndex) -> Half {
        Half {
            direction: NonNull::from(segment.direction(vi, from)),
            slots: NonNull::from(segment.slots(vi, from)),
            pool: segment.pool(vi, from),
        }
    }

    /// The direction's control block.
    #[inline]
    pub fn direction(&self) -> &Direction {
        // SAFETY: `new`'s contract keeps the segment mapped; the block is all atomics.
        unsafe { self.direction.as_ref() }
    }

    #[inline]
    pub(crate) fn slot(&self, n: u32) -> &Slot {
        // SAFETY: as for `direction`.
        unsafe { &self.slots.as_ref()[(n % SLOTS) as usize] }
    }

    /// The upper layer's area of this direction.
    pub fn area(&self) -> Area<'_> {
        // SAFETY: the area lies behind the pool, in the same mapping, which outlives `self`: the contract of `Half::new`.
        unsafe { Range::new(self.pool.add(POOL as usize)) }
    }

    /// The pool and the area of this direction as one piece.
    pub fn bulk(&self) -> Bulk<'_> {
        // SAFETY: the two lie one behind the other in the mapping, which outlives `self`: the contract of `Half::new`.
        unsafe { Range::new(self.pool) }
    }
}

/// The entries that a sender may use.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entries {
    /// Number of the next one.
    pub(crate) next: u32,
    /// Number of the first that the reader is not known to have given back.
    pub(crate) credit: u32,
}

impl Entries {
    /// All of a fresh direction, whose first entry has that number.
    pub(crate) fn from(next: u32) -> Entries {
        Entries { next, credit: next.wrapping_add(SLOTS) }
    }

    /// Whether the next one may be sent. The reader's word is read only where what it has said last is used up.
    ///
    /// # Errors
    /// [`Corrupt`] if the reader's credit is one that it cannot have given.
    #[inline(always)]
    pub(crate) fn is_free(&mut self, direction: &Direction) -> Result<bool, Corrupt> {
        Ok(self.next != self.credit || self.ask(direction)?)
    }

    #[cold]
    #[inline(never)]
    fn ask(&mut self, direction: &Direction) -> Result<bool, Corrupt> {
        let posted = direction.credit.posted();
        if posted.wrapping_sub(self.next) > SLOTS {
            return Err(Corrupt("free entries out of range"));
        }
        self.credit = posted;
        Ok(posted != self.next)
    }
}
