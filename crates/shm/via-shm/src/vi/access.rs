//! From a posted descriptor to the memory that it names, checked on the way.

use crate::card::Card;
use crate::completion::Overrun;
use crate::vi::notice::Notices;
use core::ptr::NonNull;
use via::memory::{Ptag, RegionCache};
use via::queue::{Outcome, WorkQueue};
use via::{Control, DescriptorAddress, DescriptorRef, Status};

/// A work queue with what it needs to find memory and to notify of completions.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) work: WorkQueue,
    pub(crate) descriptors: RegionCache,
    pub(crate) data: RegionCache,
    pub(crate) ptag: Ptag,
    pub(crate) notices: Notices,
}

impl Queue {
    pub(crate) fn new(capacity: u32, ptag: Ptag, notices: Notices) -> Queue {
        Queue {
            work: WorkQueue::new(capacity),
            descriptors: RegionCache::default(),
            data: RegionCache::default(),
            ptag,
            notices,
        }
    }

    /// The oldest descriptor is done. If its memory is gone, only the queue remembers how.
    pub(crate) fn complete(&mut self, nic: &Card, outcome: Outcome) -> Result<(), Overrun> {
        if let Some(front) = self.work.front()
            && let Some(descriptor) = descriptor(&mut self.descriptors, nic, self.ptag, front)
        {
            descriptor.complete(outcome.status, outcome.length, outcome.immediate);
        }
        self.work.complete(outcome);
        self.notices.completed(&mut self.work, nic)
    }

    /// Everything that is not done is done with now. `operation` is what descriptors ask for whose
    /// memory is gone. An entry for which a completion queue has no room is reported by its push.
    pub(crate) fn flush(&mut self, nic: &Card, operation: impl Fn(Control) -> Status) {
        while let Some(front) = self.work.front() {
            let descriptor = descriptor(&mut self.descriptors, nic, self.ptag, front);
            let control = descriptor.map_or(Control::empty(), |d| d.control());
            let status = operation(control.operation()) | Status::DESC_FLUSHED_ERROR;
            let _ = self.complete(nic, Outcome::error(status));
        }
    }
}

/// The descriptor at an address, if the NIC may use it.
#[inline(always)]
pub(crate) fn descriptor<'a>(
    cache: &'a mut RegionCache,
    nic: &Card,
    ptag: Ptag,
    at: DescriptorAddress,
) -> Option<DescriptorRef<'a>> {
    cache.find(&nic.table, at.handle.raw(), ptag)?.descriptor_at(at.address)
}

/// A descriptor's number of segments, after a look at its form. Control bits that mean nothing
/// for the queue are `foreign`.
#[inline(always)]
pub(crate) fn form(
    descriptor: &DescriptorRef<'_>,
    control: Control,
    foreign: Control,
) -> Result<usize, Status> {
    let count = descriptor.seg_count();
    if control.intersects(foreign) || count > descriptor.room() {
        return Err(Status::FORMAT_ERROR);
    }
    Ok(count)
}

/// Segment `i` of a descriptor: where its bytes are, and how many. No more than the first `used` of
/// them are looked after, so no others may be touched. The pointer is good while the queue's lock
/// is held: deregistering waits for that.
#[inline(always)]
pub(crate) fn segment(
    descriptor: &DescriptorRef<'_>,
    i: usize,
    used: u32,
    cache: &mut RegionCache,
    nic: &Card,
    ptag: Ptag,
) -> Result<(NonNull<u8>, u32), Status> {
    let segment = descriptor.segment(i).ok_or(Status::FORMAT_ERROR)?;
    let used = used.min(segment.length);
    if used == 0 {
        // No bytes, no memory: whatever address and handle say.
        return Ok((NonNull::dangling(), segment.length));
    }
    let memory = cache.find(&nic.table, segment.handle, ptag).ok_or(Status::PROTECTION_ERROR)?;
    let at = memory.range(segment.address, used).ok_or(Status::PROTECTION_ERROR)?;
    Ok((at, segment.length))
}

/// The data segments of a descriptor, from one on, as the one piece of memory that they stand for.
pub(crate) struct Gather<'a> {
    pub(crate) descriptor: DescriptorRef<'a>,
    pub(crate) nic: &'a Card,
    pub(crate) ptag: Ptag,
    /// The first data segment, and the one behind the last.
    pub(crate) first: usize,
    pub(crate) count: usize,
}

impl Gather<'_> {
    #[inline]
    fn segment(
        &self,
        i: usize,
        used: u32,
        data: &mut RegionCache,
    ) -> Result<(NonNull<u8>, u32), Status> {
        segment(&self.descriptor, i, used, data, self.nic, self.ptag)
    }

    /// How many bytes, all of them checked. More than fit are as many as fit.
    pub(crate) fn total(&self, data: &mut RegionCache) -> Result<u32, Status> {
        let mut total = 0u32;
        for i in self.first..self.count {
            total = total.saturating_add(self.segment(i, u32::MAX, data)?.1);
        }
        Ok(total)
    }

    /// Whether there is memory for bytes `from..from + len`. What lies behind them is not looked
    /// at: a NIC finds out about memory when it gets there, and programs post receives that say
    /// more than they have, for messages that are short.
    ///
    /// # Errors
    /// [`Status::LENGTH_ERROR`] if there is less; what is wrong with the memory.
    pub(crate) fn check(&self, data: &mut RegionCache, from: u32, len: u32) -> Result<(), Status> {
        let Some(mut left) = from.checked_add(len) else { return Err(Status::LENGTH_ERROR) };
        for i in self.first..self.count {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(self.segment(i, left, data)?.1);
        }
        if left == 0 { Ok(()) } else { Err(Status::LENGTH_ERROR) }
    }

    /// Calls `each` with the parts of bytes `from..from + len`, in order: where each lies, where
    /// in the whole, and its length. The program may change the descriptor at any time: the parts
    /// are `len` bytes in all, or it is a format error.
    pub(crate) fn parts<E: From<Status>>(
        &self,
        data: &mut RegionCache,
        from: u32,
        len: u32,
        mut each: impl FnMut(NonNull<u8>, u32, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut skip, mut done) = (from, 0);
        for i in self.first..self.count {
            if done == len {
                break;
            }
            let used = skip.saturating_add(len - done);
            let (at, size) = self.segment(i, used, data)?;
            if skip >= size {
                skip -= size;
                continue;
            }
            let part = (size - skip).min(len - done);
            // SAFETY: `skip` is less than the segment's length, and than what of it is used.
            let at = unsafe { at.add(skip as usize) };
            each(at, from + done, part)?;
            skip = 0;
            done += part;
        }
        if done == len { Ok(()) } else { Err(Status::FORMAT_ERROR.into()) }
    }
}
