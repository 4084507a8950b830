//! Finding regions without a lock or a reference count.

use crate::memory::{MemoryTable, Ptag, Region};
use std::sync::Arc;

const WAYS: usize = 4;

/// The regions that a work queue used last. Each queue has its own, so that a look-up costs a few
/// comparisons; a region that is no longer live is looked up afresh.
#[derive(Debug, Default)]
pub struct RegionCache {
    entries: [Option<Arc<Region>>; WAYS],
}

impl RegionCache {
    /// The live region under a raw handle, if its tag is `ptag`.
    #[inline]
    pub fn find(&mut self, table: &MemoryTable, handle: u32, ptag: Ptag) -> Option<&Region> {
        let place = &mut self.entries[handle as usize % WAYS];
        let hit = place.as_ref().is_some_and(|r| r.handle().raw() == handle && r.is_live());
        if !hit {
            *place = Some(table.find(handle)?);
        }
        place.as_deref().filter(|region| region.ptag() == ptag)
    }

    /// Lets go of every region.
    pub fn clear(&mut self) {
        self.entries = Default::default();
    }
}
