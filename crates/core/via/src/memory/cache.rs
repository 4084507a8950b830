//! Finds regions without a lock or a reference count.

use crate::memory::{MemHandle, Memory, MemoryTable, Ptag, Region};
use std::sync::Arc;

const WAYS: usize = 4;

/// The regions that a work queue used last. Each queue has its own cache, so a lookup costs a few comparisons. The
/// cache looks up a region again if it is no longer live.
#[derive(Debug, Default)]
pub struct RegionCache {
    entries: [Option<Entry>; WAYS],
}

/// A region with a copy of its handle. A hit reads the handle here, and everything else in the cache line of the
/// region's `live` flag.
#[derive(Debug)]
struct Entry {
    handle: MemHandle,
    region: Arc<Region>,
}

impl RegionCache {
    /// Returns the memory of the live region with this raw handle, if its tag is `ptag`.
    #[inline]
    pub fn find(&mut self, table: &MemoryTable, handle: u32, ptag: Ptag) -> Option<&Memory> {
        let place = &mut self.entries[handle as usize % WAYS];
        let hit = place.as_ref().is_some_and(|e| e.handle.raw() == handle && e.region.is_live());
        if !hit {
            *place = Some(look_up(table, handle)?);
        }
        let region = &place.as_ref()?.region;
        (region.ptag() == ptag).then(|| region.memory())
    }

    /// Drops all regions.
    pub fn clear(&mut self) {
        self.entries = Default::default();
    }
}

#[cold]
fn look_up(table: &MemoryTable, handle: u32) -> Option<Entry> {
    let region = table.find(handle)?;
    Some(Entry { handle: region.handle(), region })
}
