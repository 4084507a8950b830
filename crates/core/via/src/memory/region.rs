//! A registered region.

use crate::attributes::MemAttributes;
use crate::memory::{MemHandle, Memory, Ptag};
use core::sync::atomic::{AtomicBool, Ordering};

/// A registered region: memory, its handle, its tag.
///
/// Holding one keeps memory of [`Memory::zeroed`] alive, but allows nothing: before each access a
/// NIC asks [`Region::is_live`], inside whatever `deregister_mem` waits for.
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

    /// Whether the region is still registered, under the attributes that it has here.
    #[inline]
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Its handle.
    #[inline]
    pub fn handle(&self) -> MemHandle {
        self.handle
    }

    /// Its protection tag.
    #[inline]
    pub fn ptag(&self) -> Ptag {
        self.ptag
    }

    /// What may be done with it; the tag is always named.
    pub fn attributes(&self) -> MemAttributes {
        self.attributes
    }

    /// The memory itself.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}
