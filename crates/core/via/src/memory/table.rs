//! The memory table of a NIC: tags and regions.

use crate::attributes::MemAttributes;
use crate::error::{MemError, PtagError, RegisterError};
use crate::memory::{MemHandle, Memory, Ptag, Region};
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limits of a memory table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of regions; at most [`MemHandle::PLACES`].
    pub regions: u32,
    /// Largest number of bytes in total.
    pub bytes: u64,
    /// Largest number of bytes of one region.
    pub block_bytes: u64,
    /// Largest number of protection tags, including the default tag.
    pub ptags: u32,
}

/// Protection tags and registered regions of one NIC.
///
/// ```
/// use via::memory::{Limits, MemoryTable};
/// use via::{MemAttributes, Memory};
///
/// let table = MemoryTable::new(Limits { regions: 8, bytes: 1 << 20, block_bytes: 1 << 20, ptags: 4 });
/// let tag = table.create_ptag()?;
/// let memory = Memory::zeroed(4096);
/// let attributes = MemAttributes { ptag: Some(tag), ..MemAttributes::default() };
/// let handle = table.register(&memory, attributes)?;
///
/// // The check that a NIC makes for a handle in a descriptor.
/// let region = table.find(handle.raw()).expect("a live region");
/// assert_eq!(region.ptag(), tag);
/// table.deregister(handle)?;
/// assert!(!region.is_live() && table.find(handle.raw()).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MemoryTable {
    limits: Limits,
    default_ptag: Ptag,
    /// Number of regions that are no longer live.
    changes: AtomicU32,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    places: Vec<Place>,
    /// Free places that were used before, the longest free first. Late reuse detects stale handles for longer.
    free: VecDeque<u32>,
    bytes: u64,
    /// Number of regions and VIs that use each tag.
    ptags: HashMap<Ptag, usize>,
    last_ptag: u32,
}

#[derive(Debug)]
struct Place {
    generation: NonZeroU32,
    region: Option<Arc<Region>>,
}

/// Generations wrap at the width of their field in a handle. Generations skip 0, so that no handle is zero.
fn next_generation(generation: NonZeroU32) -> NonZeroU32 {
    let next = (generation.get() + 1) % (u32::MAX / MemHandle::PLACES);
    NonZeroU32::new(next).unwrap_or(NonZeroU32::MIN)
}

impl MemoryTable {
    /// Creates an empty table with its default tag.
    pub fn new(limits: Limits) -> MemoryTable {
        let default_ptag = Ptag(NonZeroU32::MIN);
        let mut inner = Inner { last_ptag: default_ptag.raw(), ..Inner::default() };
        inner.ptags.insert(default_ptag, 1);
        MemoryTable { limits, default_ptag, changes: AtomicU32::new(0), inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No code panics in the middle of a change, so the data is consistent even if the lock is poisoned.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that changes whenever a region is deregistered or its attributes change. While the number is
    /// the same, regions found before are still live. Read it like [`Region::is_live`], in a section that deregistering
    /// waits for.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    fn kill(&self, region: &Region) {
        region.kill();
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the default tag.
    pub fn default_ptag(&self) -> Ptag {
        self.default_ptag
    }

    /// Creates a protection tag.
    ///
    /// # Errors
    /// [`PtagError::TooMany`].
    pub fn create_ptag(&self) -> Result<Ptag, PtagError> {
        let mut inner = self.inner();
        if inner.ptags.len() >= self.limits.ptags as usize {
            return Err(PtagError::TooMany);
        }
        loop {
            inner.last_ptag = inner.last_ptag.wrapping_add(1);
            let Some(ptag) = Ptag::from_raw(inner.last_ptag) else { continue };
            if let Entry::Vacant(entry) = inner.ptags.entry(ptag) {
                entry.insert(0);
                return Ok(ptag);
            }
        }
    }

    /// Destroys a tag that no region and no VI uses.
    ///
    /// # Errors
    /// [`PtagError::Unknown`], [`PtagError::InUse`].
    pub fn destroy_ptag(&self, ptag: Ptag) -> Result<(), PtagError> {
        let mut inner = self.inner();
        match inner.ptags.get(&ptag) {
            None => Err(PtagError::Unknown),
            Some(0) => {
                inner.ptags.remove(&ptag);
                Ok(())
            }
            Some(_) => Err(PtagError::InUse),
        }
    }

    /// Counts a VI that uses the tag (the default tag for `None`), which prevents destroying the tag.
    ///
    /// # Errors
    /// [`PtagError::Unknown`].
    pub fn hold_ptag(&self, ptag: Option<Ptag>) -> Result<Ptag, PtagError> {
        let ptag = ptag.unwrap_or(self.default_ptag);
        *self.inner().ptags.get_mut(&ptag).ok_or(PtagError::Unknown)? += 1;
        Ok(ptag)
    }

    /// Undoes [`MemoryTable::hold_ptag`].
    pub fn release_ptag(&self, ptag: Ptag) {
        if let Some(uses) = self.inner().ptags.get_mut(&ptag) {
            *uses = uses.saturating_sub(1);
        }
    }

    /// Registers memory.
    ///
    /// # Errors
    /// [`RegisterError`]: an unknown tag, an empty region, or a limit of the NIC.
    pub fn register(
        &self,
        memory: &Memory,
        attributes: MemAttributes,
    ) -> Result<MemHandle, RegisterError> {
        let bytes = memory.len() as u64;
        if bytes == 0 {
            return Err(RegisterError::Empty);
        }
        let mut inner = self.inner();
        let ptag = attributes.ptag.unwrap_or(self.default_ptag);
        if !inner.ptags.contains_key(&ptag) {
            return Err(RegisterError::UnknownPtag);
        }
        if bytes > self.limits.block_bytes || bytes > self.limits.bytes - inner.bytes {
            return Err(RegisterError::TooManyBytes);
        }
        let index = match inner.free.pop_front() {
            Some(index) => index,
            None if inner.places.len() < self.limits.regions.min(MemHandle::PLACES) as usize => {
                inner.places.push(Place { generation: NonZeroU32::MIN, region: None });
                inner.places.len() as u32 - 1
            }
            None => return Err(RegisterError::TooManyRegions),
        };
        inner.bytes += bytes;
        *inner.ptags.entry(ptag).or_default() += 1;
        let place = &mut inner.places[index as usize];
        let handle = MemHandle::new(index, place.generation);
        let attributes = MemAttributes { ptag: Some(ptag), ..attributes };
        place.region = Some(Arc::new(Region::new(memory.clone(), handle, ptag, attributes)));
        Ok(handle)
    }

    /// Number of bytes of all registered regions.
    pub fn bytes(&self) -> u64 {
        self.inner().bytes
    }

    /// Returns the live region with this raw handle.
    pub fn find(&self, handle: u32) -> Option<Arc<Region>> {
        let handle = MemHandle::from_raw(handle)?;
        let inner = self.inner();
        let region = inner.places.get(handle.index())?.region.as_ref()?;
        (region.handle() == handle).then(|| region.clone())
    }

    /// Removes a region from the table. The NIC must keep the returned region, and must not return to its caller before
    /// every transfer that uses the region has ended.
    ///
    /// # Errors
    /// [`MemError::UnknownHandle`].
    pub fn deregister(&self, handle: MemHandle) -> Result<Arc<Region>, MemError> {
        let mut inner = self.inner();
        let place = inner.places.get_mut(handle.index()).ok_or(MemError::UnknownHandle)?;
        let region =
            place.region.take_if(|r| r.handle() == handle).ok_or(MemError::UnknownHandle)?;
        place.generation = next_generation(place.generation);
        self.kill(&region);
        inner.free.push_back(handle.index() as u32);
        inner.bytes -= region.memory().len() as u64;
        if let Some(uses) = inner.ptags.get_mut(&region.ptag()) {
            *uses -= 1;
        }
        Ok(region)
    }

    /// Changes the attributes of a region, and keeps its handle. Returns the region with its old attributes. Like after
    /// [`MemoryTable::deregister`], transfers may use the old attributes until the NIC has waited for them.
    ///
    /// # Errors
    /// [`MemError::UnknownHandle`], [`MemError::UnknownPtag`].
    pub fn set_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<Arc<Region>, MemError> {
        let mut inner = self.inner();
        let ptag = attributes.ptag.unwrap_or(self.default_ptag);
        if !inner.ptags.contains_key(&ptag) {
            return Err(MemError::UnknownPtag);
        }
        let place = inner.places.get_mut(handle.index()).ok_or(MemError::UnknownHandle)?;
        let old = place.region.take_if(|r| r.handle() == handle).ok_or(MemError::UnknownHandle)?;
        let attributes = MemAttributes { ptag: Some(ptag), ..attributes };
        place.region = Some(Arc::new(Region::new(old.memory().clone(), handle, ptag, attributes)));
        self.kill(&old);
        *inner.ptags.entry(ptag).or_default() += 1;
        if let Some(uses) = inner.ptags.get_mut(&old.ptag()) {
            *uses -= 1;
        }
        Ok(old)
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
