//! The two numbers by which protection works: tags and memory handles.

use core::num::NonZeroU32;

/// A protection tag (`VIP_PROTECTION_HANDLE`): VIs use regions of their own tag only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ptag(pub(crate) NonZeroU32);

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

    pub(crate) fn new(index: u32, generation: NonZeroU32) -> MemHandle {
        let raw = generation.get() << INDEX_BITS | (index & (Self::PLACES - 1));
        MemHandle(NonZeroU32::new(raw).unwrap_or(generation))
    }

    pub(crate) fn index(self) -> usize {
        (self.raw() & (Self::PLACES - 1)) as usize
    }
}
