//! A registered region.

use crate::attributes::MemAttributes;
use crate::memory::{MemHandle, Memory, Ptag};
use core::sync::atomic::{AtomicBool, Ordering};

/// A registered region: memory, its handle, its tag.
///
/// A reference keeps memory of [`Memory::zeroed`] alive, but does not allow access. Before each access a NIC must check
/// [`Region::is_live`], in a section that `deregister_mem` waits for.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    handle: MemHandle,
    ptag: Ptag,
    attributes: MemAttributes,
    live: AtomicBool,
}

impl Region {
    pub(super) fn new(
        memory: Memory,
        handle: MemHandle,
        ptag: Ptag,
        attributes: MemAttributes,
    ) -> Region {
        Region { memory, handle, ptag, attributes, live: AtomicBool::new(true) }
    }

    pub(super) fn kill(&self) {
        self.live.store(false, Ordering::SeqCst);
    }

    /// Returns true while the region is registered with these attributes.
    #[inline]
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Returns the region's handle.
    #[inline]
    pub fn handle(&self) -> MemHandle {
        self.handle
    }

    /// Returns the region's protection tag.
    #[inline]
    pub fn ptag(&self) -> Ptag {
        self.ptag
    }

    /// Returns the region's attributes. The protection tag is always present.
    pub fn attributes(&self) -> MemAttributes {
        self.attributes
    }

    /// Returns the memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}
