//! A cache of the regions that a VI has used recently.
//!
//! A message needs its regions several times. A lookup in the NIC's table takes a lock and counts a reference. A cached
//! region stays valid until any region is deregistered, which the table counts ([`MemoryTable::changes`]). Memory is
//! used and deregistered only under the world's lock, so the count cannot change while a region is in use.

use core::cell::{Cell, RefCell};
use std::sync::Arc;
use via::memory::{MemoryTable, Region};

/// Number of cached regions: one for descriptors and one for data of each queue.
const PLACES: usize = 4;

/// Cached regions. Memory of [`via::Memory::zeroed`] stays allocated while it is cached: after deregistration until the
/// VI next uses any memory.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    regions: RefCell<[Option<Arc<Region>>; PLACES]>,
    changes: Cell<u32>,
    /// Place for the next new region.
    next: Cell<usize>,
}

impl Recent {
    /// Calls `use_it` with the live region of a raw handle, if there is one.
    pub(crate) fn with<R>(
        &self,
        table: &MemoryTable,
        handle: u32,
        use_it: impl FnOnce(&Region) -> R,
    ) -> Option<R> {
        let changes = table.changes();
        if self.changes.replace(changes) != changes {
            self.regions.take();
        }
        let known = |region: &&Arc<Region>| region.handle().raw() == handle;
        if let Some(region) = self.regions.borrow().iter().flatten().find(known) {
            return Some(use_it(region));
        }
        let region = table.find(handle)?;
        let result = use_it(&region);
        let place = self.next.get();
        self.next.set((place + 1) % PLACES);
        self.regions.borrow_mut()[place] = Some(region);
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use via::memory::Limits;
    use via::{MemAttributes, Memory};

    fn table() -> MemoryTable {
        MemoryTable::new(Limits { regions: 64, bytes: 1 << 20, block_bytes: 1 << 20, ptags: 4 })
    }

    #[test]
    fn deregistered_region_is_not_found_after_earlier_use() {
        let (table, recent) = (table(), Recent::default());
        let handles: Vec<_> = (0..PLACES + 2)
            .map(|_| table.register(&Memory::zeroed(64), MemAttributes::default()).unwrap())
            .collect();
        for handle in handles.iter().chain(&handles) {
            let found = recent.with(&table, handle.raw(), |region| region.handle());
            assert_eq!(found, Some(*handle));
        }
        let (gone, rest) = handles.split_last().unwrap();
        table.deregister(*gone).unwrap();
        assert_eq!(recent.with(&table, gone.raw(), |_| ()), None);
        for handle in rest {
            assert_eq!(recent.with(&table, handle.raw(), |_| ()), Some(()));
        }
    }

    #[test]
    fn attributes_that_have_changed_are_the_ones_that_are_found() {
        let (table, recent) = (table(), Recent::default());
        let memory = Memory::zeroed(64);
        let handle = table.register(&memory, MemAttributes::default()).unwrap();
        let writes = || recent.with(&table, handle.raw(), |it| it.attributes().enable_rdma_write);
        assert_eq!(writes(), Some(false));
        let attributes = MemAttributes { enable_rdma_write: true, ..MemAttributes::default() };
        table.set_attributes(handle, attributes).unwrap();
        assert_eq!(writes(), Some(true));
    }
}
