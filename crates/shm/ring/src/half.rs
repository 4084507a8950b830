//! Addresses of one direction of a VI, for either end, and the sender's count of free entries.

use crate::Corrupt;
use crate::layout::Direction;
use crate::pool::POOL;
use crate::range::{Bulk, OverflowBuffer, Range};
use crate::ring::{SLOTS, Slot};
use crate::segment::{Segment, SideIndex};
use core::ptr::NonNull;

/// Pointers to a direction's control block, ring and pool, in a segment that stays mapped.
#[derive(Debug)]
#[repr(C)]
pub struct Half {
    direction: NonNull<Direction>,
    slots: NonNull<[Slot; SLOTS as usize]>,
    pool: NonNull<u8>,
}

impl Half {
    /// Returns the direction of `vi` in which `from` sends.
    ///
    /// # Safety
    /// The segment stays mapped while this `Half`, or anything derived from it, is in use.
    pub unsafe fn new(segment: &Segment, vi: u32, from: SideIndex) -> Half {
        Half {
            direction: NonNull::from(segment.direction(vi, from)),
            slots: NonNull::from(segment.slots(vi, from)),
            pool: segment.pool(vi, from),
        }
    }

    /// Returns the direction's control block.
    #[inline]
    pub fn direction(&self) -> &Direction {
        // SAFETY: `new`'s contract keeps the segment mapped. The block consists of atomics only, so shared references
        // are sound.
        unsafe { self.direction.as_ref() }
    }

    /// Returns the slot of entry `n`.
    #[inline]
    pub fn slot(&self, n: u32) -> &Slot {
        // SAFETY: `new`'s contract keeps the segment mapped. Slots consist of atomics only, so shared references are
        // sound.
        unsafe { &self.slots.as_ref()[(n % SLOTS) as usize] }
    }

    /// Returns the address of the direction's pool; [`POOL`] bytes.
    #[inline]
    pub fn pool(&self) -> NonNull<u8> {
        self.pool
    }

    /// Returns the overflow buffer of this direction, which the layer above uses.
    pub fn overflow_buffer(&self) -> OverflowBuffer<'_> {
        // SAFETY: the overflow buffer lies behind the pool in the same mapping. The contract of `Half::new` keeps
        // this mapping.
        unsafe { Range::new(self.pool.add(POOL as usize)) }
    }

    /// Returns the pool and the overflow buffer of this direction as one range.
    pub fn bulk(&self) -> Bulk<'_> {
        // SAFETY: the overflow buffer lies directly behind the pool. The contract of `Half::new` keeps the pool and
        // the overflow buffer mapped.
        unsafe { Range::new(self.pool) }
    }
}

/// Numbers of the entries that a sender may use.
#[derive(Debug)]
#[repr(C)]
pub struct Entries {
    /// Number of the next entry to use.
    pub next: u32,
    /// Number of the first entry that, as far as the sender knows, may not be used yet.
    pub(crate) credit: u32,
}

impl Entries {
    /// Returns the state of a new direction, whose first entry has number `next`. All slots are free.
    pub fn from(next: u32) -> Entries {
        Entries { next, credit: next.wrapping_add(SLOTS) }
    }

    /// Returns true if the next entry may be sent. Loads the reader's credit only if the known credit is used up.
    ///
    /// # Errors
    /// [`Corrupt`] if the reader's credit is out of range.
    #[inline(always)]
    pub fn is_free(&mut self, direction: &Direction) -> Result<bool, Corrupt> {
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
