//! From a descriptor to the memory that it names.

use crate::regions::Regions;
use smallvec::SmallVec;
use sovia_verbs::Segment;
use std::sync::Arc;
use via::descriptor::{One, Work};
use via::error::PostError;
use via::memory::Region;
use via::queue::{Outcome, WorkQueue};
use via::{DataSegment, DescriptorAddress, DescriptorRef, Memory, Ptag, Status, WorkQueueKind};

/// Regions that a VI remembers.
const RECENT: usize = 8;

/// Data segments as the device wants them.
pub(crate) type Keyed = SmallVec<[Segment; 4]>;

/// The regions that a VI used last, with their local keys: those are found without a lock.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    entries: [Option<(u32, Arc<Region>, u32)>; RECENT],
}

/// Memory that a VI may use.
pub(crate) struct Access<'a> {
    pub(crate) regions: &'a Regions,
    pub(crate) recent: &'a mut Recent,
    pub(crate) ptag: Ptag,
}

impl Access<'_> {
    /// The region of that handle with its local key, if there is one that the VI may use.
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

    /// Asks the NIC, of which other threads have the lock as well.
    #[cold]
    #[inline(never)]
    fn look_up(&mut self, place: usize, handle: u32) {
        let found = self.regions.local(handle);
        self.recent.entries[place] = found.map(|(region, key)| (handle, region, key));
    }

    /// Does something with a descriptor, if there is one.
    #[inline(always)]
    pub(crate) fn descriptor<R>(
        &mut self,
        at: DescriptorAddress,
        use_it: impl FnOnce(DescriptorRef<'_>) -> R,
    ) -> Option<R> {
        let (region, _) = self.region(at.handle.raw())?;
        region.memory().descriptor_at(at.address).map(use_it)
    }

    /// Tells the program in the descriptor itself. If its memory is gone, which is false, only the queue knows.
    #[inline(always)]
    pub(crate) fn complete(&mut self, at: DescriptorAddress, outcome: &Outcome) -> bool {
        let Outcome { status, length, immediate } = *outcome;
        self.descriptor(at, |descriptor| descriptor.complete(status, length, immediate)).is_some()
    }

    /// Reads a descriptor of that queue.
    ///
    /// # Errors
    /// The status that it ends in.
    pub(crate) fn load(
        &mut self,
        at: DescriptorAddress,
        queue: WorkQueueKind,
    ) -> Result<Work, Status> {
        let work = self.descriptor(at, |descriptor| descriptor.work(queue));
        work.unwrap_or(Err(Status::PROTECTION_ERROR))
    }

    /// Posts a descriptor to a queue. What it asks for, if that is a message of one segment.
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

    /// A data segment that is not empty, with its key.
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

    /// Adds data segments with their keys, without empty ones.
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

    /// The memory of a segment that is not empty, and where in it the segment begins.
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

    /// The bytes of data segments, one after the other.
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

    /// Writes bytes into data segments, one after the other; memory that no byte goes to is not looked at.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`]: those before it have their bytes.
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
