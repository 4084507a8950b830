//! Protection: which memory a NIC may touch for which VI.
//!
//! A program registers a range of its memory under a protection tag and gets a handle. A
//! descriptor names memory by address and handle; the NIC allows the access if the handle is one
//! of a live region, the range lies in that region, and the region's tag is the VI's. Everything
//! is checked at the time of the access, not when the descriptor is posted: a handle may go stale
//! in between, and carries a generation so that this is noticed.

pub mod buffer;
pub mod cache;
mod region;
mod table;

pub use buffer::Memory;
pub use cache::RegionCache;
pub use region::Region;
pub use table::{Limits, MemoryTable};

use core::num::NonZeroU32;

/// A protection tag (`VIP_PROTECTION_HANDLE`): VIs use regions of their own tag only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ptag(NonZeroU32);

impl Ptag {
    /// The tag as a number that is never zero.
    pub fn raw(self) -> u32 {
        self.0.get()
    }

    /// A tag from its number; whether it exists is the NIC's to say.
    pub fn from_raw(raw: u32) -> Option<Ptag> {
        NonZeroU32::new(raw).map(Ptag)
    }
}

/// Names a registered region (`VIP_MEM_HANDLE`); never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemHandle(NonZeroU32);

/// Low bits of a handle: the region's place in the table. The rest counts the place's uses.
const INDEX_BITS: u32 = 14;

impl MemHandle {
    /// Regions that a table can hold.
    pub const PLACES: u32 = 1 << INDEX_BITS;
    /// For places that hold no handle: one of no live region of any table.
    pub(crate) const NEVER: MemHandle = MemHandle(NonZeroU32::MAX);

    /// The handle as descriptors carry it.
    #[inline]
    pub fn raw(self) -> u32 {
        self.0.get()
    }

    /// A handle from a number; whether it is of a live region is the NIC's to say.
    #[inline]
    pub fn from_raw(raw: u32) -> Option<MemHandle> {
        NonZeroU32::new(raw).map(MemHandle)
    }

    fn new(index: u32, generation: NonZeroU32) -> MemHandle {
        let raw = generation.get() << INDEX_BITS | (index & (Self::PLACES - 1));
        MemHandle(NonZeroU32::new(raw).unwrap_or(generation))
    }

    fn index(self) -> usize {
        (self.raw() & (Self::PLACES - 1)) as usize
    }
}
