//! The two numbers of memory protection: protection tags and memory handles.

use core::num::NonZeroU32;

/// A protection tag (`VIP_PROTECTION_HANDLE`). A VI may use only regions with its own tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ptag(pub(crate) NonZeroU32);

impl Ptag {
    /// Returns the tag as a number, which is never zero.
    pub fn raw(self) -> u32 {
        self.0.get()
    }

    /// Returns the tag with this number. The NIC checks whether the tag exists.
    pub fn from_raw(raw: u32) -> Option<Ptag> {
        NonZeroU32::new(raw).map(Ptag)
    }
}

/// Identifies a registered region (`VIP_MEM_HANDLE`); never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemHandle(NonZeroU32);

/// Number of low bits that give the region's place in the table. The other bits are the place's generation.
const INDEX_BITS: u32 = 14;

impl MemHandle {
    /// Largest number of regions in a table.
    pub const PLACES: u32 = 1 << INDEX_BITS;
    /// A handle that no table ever gives out, for places without a handle.
    pub(crate) const NEVER: MemHandle = MemHandle(NonZeroU32::MAX);

    /// Returns the handle as in descriptors.
    #[inline]
    pub fn raw(self) -> u32 {
        self.0.get()
    }

    /// Returns the handle with this number. The NIC checks whether its region is live.
    #[inline]
    pub fn from_raw(raw: u32) -> Option<MemHandle> {
        NonZeroU32::new(raw).map(MemHandle)
    }

    pub(crate) fn new(index: u32, generation: NonZeroU32) -> MemHandle {
        let raw = generation.get() << INDEX_BITS | (index & (Self::PLACES - 1));
        MemHandle(NonZeroU32::new(raw).unwrap_or(generation))
    }

    pub(crate) fn index(self) -> usize {
        (self.raw() & (Self::PLACES - 1)) as usize
    }
}
