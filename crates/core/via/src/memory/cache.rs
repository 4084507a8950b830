//! Finding regions without a lock or a reference count.

use crate::memory::{MemHandle, Memory, MemoryTable, Ptag, Region};
use std::sync::Arc;

const WAYS: usize = 4;

/// The regions that a work queue used last. Each queue has its own, so that a look-up costs a few
/// comparisons; a region that is no longer live is looked up afresh.
#[derive(Debug, Default)]
pub struct RegionCache {
    entries: [Option<Entry>; WAYS],
}

/// A region, with its handle close at hand. The rest of what a hit needs lies in the line of the
/// region that says whether it is live.
#[derive(Debug)]
struct Entry {
    handle: MemHandle,
    region: Arc<Region>,
}

impl RegionCache {
    /// The memory of the live region under a raw handle, if its tag is `ptag`.
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

    /// Lets go of every region.
    pub fn clear(&mut self) {
        self.entries = Default::default();
    }
}

#[cold]
fn look_up(table: &MemoryTable, handle: u32) -> Option<Entry> {
    let region = table.find(handle)?;
    Some(Entry { handle: region.handle(), region })
}
