//! Finds the memory that a descriptor names.

use crate::regions::Regions;
use smallvec::SmallVec;
use sovia_verbs::Segment;
use std::sync::Arc;
use via::descriptor::{One, Work};
use via::error::PostError;
use via::memory::Region;
use via::queue::{Outcome, WorkQueue};
use via::{DataSegment, DescriptorAddress, DescriptorRef, Memory, Ptag, Status, WorkQueueKind};

/// Number of regions that a VI remembers.
const RECENT: usize = 8;

/// Data segments in the device's form.
pub(crate) type Keyed = SmallVec<[Segment; 4]>;

/// The regions that a VI used last, with their local keys. Access to these regions needs no lock.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    entries: [Option<(u32, Arc<Region>, u32)>; RECENT],
}

/// Access to the memory that a VI may use.
pub(crate) struct Access<'a> {
    pub(crate) regions: &'a Regions,
    pub(crate) recent: &'a mut Recent,
    pub(crate) ptag: Ptag,
}

impl Access<'_> {
    /// Returns the region of a handle and its local key, if the VI may use the region.
    #[inline(always)]
    fn region(&mut self, handle: u32) -> Option<(&Region, u32)> {
        let place = handle as usize % RECENT;
        let is_it = match &self.recent.entries[place] {
            Some((known, region, _)) => *known == handle && region.is_live(),
            None => false,
        };
        if !is_it {
            self.look_up(place, handle);
        }
        let (_, region, key) = self.recent.entries[place].as_ref()?;
        (region.ptag() == self.ptag).then_some((&**region, *key))
    }

    /// Looks the region up in the NIC's table, under a lock that other threads also take.
    #[cold]
    #[inline(never)]
    fn look_up(&mut self, place: usize, handle: u32) {
        let found = self.regions.local(handle);
        self.recent.entries[place] = found.map(|(region, key)| (handle, region, key));
    }

    /// Calls `use_it` with a descriptor, if the VI may use the descriptor's memory.
    #[inline(always)]
    pub(crate) fn descriptor<R>(
        &mut self,
        at: DescriptorAddress,
        use_it: impl FnOnce(DescriptorRef<'_>) -> R,
    ) -> Option<R> {
        let (region, _) = self.region(at.handle.raw())?;
        region.memory().descriptor_at(at.address).map(use_it)
    }

    /// Writes the outcome into the descriptor. Returns false if its memory is gone: then only the queue has the
    /// outcome.
    #[inline(always)]
    pub(crate) fn complete(&mut self, at: DescriptorAddress, outcome: &Outcome) -> bool {
        let Outcome { status, length, immediate } = *outcome;
        self.descriptor(at, |descriptor| descriptor.complete(status, length, immediate)).is_some()
    }

    /// Reads a descriptor of the queue `queue`.
    ///
    /// # Errors
    /// The status with which the descriptor ends.
    pub(crate) fn load(
        &mut self,
        at: DescriptorAddress,
        queue: WorkQueueKind,
    ) -> Result<Work, Status> {
        let work = self.descriptor(at, |descriptor| descriptor.work(queue));
        work.unwrap_or(Err(Status::PROTECTION_ERROR))
    }

    /// Posts a descriptor to a queue. Returns the work if it is a message of one segment.
    ///
    /// # Errors
    /// [`PostError`].
    #[inline(always)]
    pub(crate) fn post(
        &mut self,
        at: DescriptorAddress,
        work: &mut WorkQueue,
        queue: WorkQueueKind,
    ) -> Result<Option<One>, PostError> {
        let posted = self.descriptor(at, |descriptor| {
            work.post(at).map_err(|_| PostError::QueueFull)?;
            descriptor.clear_status();
            Ok(descriptor.one(queue))
        });
        posted.ok_or(PostError::Descriptor)?
    }

    /// Adds the local key to a data segment that is not empty.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    #[inline]
    pub(crate) fn key(&mut self, segment: &DataSegment) -> Result<Segment, Status> {
        let (region, key) = self.region(segment.handle).ok_or(Status::PROTECTION_ERROR)?;
        let within = region.memory().range(segment.address, segment.length);
        within.ok_or(Status::PROTECTION_ERROR)?;
        Ok(Segment { addr: segment.address, length: segment.length, lkey: key })
    }

    /// Appends data segments with their local keys to `keyed`. Leaves out empty segments.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    pub(crate) fn keyed(&mut self, data: &[DataSegment], keyed: &mut Keyed) -> Result<(), Status> {
        for segment in data.iter().filter(|segment| segment.length > 0) {
            let segment = self.key(segment)?;
            keyed.push(segment);
        }
        Ok(())
    }

    /// Returns the memory of a segment that is not empty, and the segment's offset in the memory.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    #[inline]
    pub(crate) fn place(&mut self, segment: &DataSegment) -> Result<(&Memory, usize), Status> {
        let (region, _) = self.region(segment.handle).ok_or(Status::PROTECTION_ERROR)?;
        let memory = region.memory();
        memory.range(segment.address, segment.length).ok_or(Status::PROTECTION_ERROR)?;
        Ok((memory, (segment.address - memory.address(0)) as usize))
    }

    /// Copies the bytes of data segments into `room`, one after the other.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    pub(crate) fn gather(&mut self, data: &[DataSegment], room: &mut [u8]) -> Result<(), Status> {
        let mut rest = room;
        for segment in data.iter().filter(|segment| segment.length > 0) {
            let (region, _) = self.region(segment.handle).ok_or(Status::PROTECTION_ERROR)?;
            let (into, later) = rest.split_at_mut(rest.len().min(segment.length as usize));
            let at = segment.address.wrapping_sub(region.memory().address(0));
            let at = usize::try_from(at).map_err(|_| Status::PROTECTION_ERROR)?;
            if !region.memory().read(at, into) {
                return Err(Status::PROTECTION_ERROR);
            }
            rest = later;
        }
        Ok(())
    }

    /// Writes bytes into data segments, one after the other. Segments that get no byte are not checked.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`]: the segments before the invalid one have their bytes.
    pub(crate) fn scatter(&mut self, data: &[DataSegment], bytes: &[u8]) -> Result<(), Status> {
        let mut rest = bytes;
        for segment in data {
            let (now, later) = rest.split_at(rest.len().min(segment.length as usize));
            if now.is_empty() {
                continue;
            }
            let (region, _) = self.region(segment.handle).ok_or(Status::PROTECTION_ERROR)?;
            let at = segment.address.wrapping_sub(region.memory().address(0));
            let at = usize::try_from(at).map_err(|_| Status::PROTECTION_ERROR)?;
            if !region.memory().write(at, now) {
                return Err(Status::PROTECTION_ERROR);
            }
            rest = later;
        }
        Ok(())
    }
}
