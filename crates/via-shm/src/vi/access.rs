//! From a posted descriptor to the memory that it names, checked on the way.

use crate::nic::Shared;
use core::ptr::NonNull;
use via::memory::{Ptag, RegionCache};
use via::queue::{Outcome, WorkQueue};
use via::{Control, DescriptorAddress, DescriptorRef, Status};

/// A work queue with what it needs to find memory.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) work: WorkQueue,
    pub(crate) descriptors: RegionCache,
    pub(crate) data: RegionCache,
}

impl Queue {
    pub(crate) fn new(capacity: u32) -> Queue {
        Queue {
            work: WorkQueue::new(capacity),
            descriptors: RegionCache::default(),
            data: RegionCache::default(),
        }
    }

    /// The oldest descriptor is done. If its memory is gone, only the queue remembers how.
    #[inline]
    pub(crate) fn complete(&mut self, nic: &Shared, ptag: Ptag, outcome: Outcome) {
        if let Some(front) = self.work.front()
            && let Some(descriptor) = descriptor(&mut self.descriptors, nic, ptag, front)
        {
            descriptor.complete(outcome.status, outcome.length, outcome.immediate);
        }
        self.work.complete(outcome);
    }

    /// Everything that is not done is done with now.
    pub(crate) fn flush(&mut self, nic: &Shared, ptag: Ptag, operation: Status) {
        while self.work.front().is_some() {
            let outcome = Outcome::error(operation | Status::DESC_FLUSHED_ERROR);
            self.complete(nic, ptag, outcome);
        }
    }
}

/// The descriptor at an address, if the NIC may use it.
#[inline(always)]
pub(crate) fn descriptor<'a>(
    cache: &'a mut RegionCache,
    nic: &Shared,
    ptag: Ptag,
    at: DescriptorAddress,
) -> Option<DescriptorRef<'a>> {
    cache.find(&nic.table, at.handle.raw(), ptag)?.descriptor_at(at.address)
}

/// Control bits that mean nothing to this NIC; RDMA is one that it does not do.
const FOREIGN: Control = Control::RESERVED.union(Control::OP_MASK);

/// A descriptor's number of segments, after a look at its form.
#[inline(always)]
pub(crate) fn form(descriptor: &DescriptorRef<'_>, control: Control) -> Result<usize, Status> {
    let count = descriptor.seg_count();
    if control.intersects(FOREIGN) || count > descriptor.room() {
        return Err(Status::FORMAT_ERROR);
    }
    Ok(count)
}

/// Segment `i` of a descriptor: where its bytes are, and how many. The pointer is good while the
/// queue's lock is held: deregistering waits for that.
#[inline(always)]
pub(crate) fn segment(
    descriptor: &DescriptorRef<'_>,
    i: usize,
    cache: &mut RegionCache,
    nic: &Shared,
    ptag: Ptag,
) -> Result<(NonNull<u8>, u32), Status> {
    let segment = descriptor.segment(i).ok_or(Status::FORMAT_ERROR)?;
    if segment.length == 0 {
        // No bytes, no memory: whatever address and handle say.
        return Ok((NonNull::dangling(), 0));
    }
    let memory = cache.find(&nic.table, segment.handle, ptag).ok_or(Status::PROTECTION_ERROR)?;
    let at = memory.range(segment.address, segment.length).ok_or(Status::PROTECTION_ERROR)?;
    Ok((at, segment.length))
}
