//! Looks up the memory that a posted descriptor names, and checks the program's rights to it.

use crate::card::Card;
use crate::completion::Overrun;
use crate::vi::notice::Notices;
use core::ptr::NonNull;
use via::memory::{Ptag, RegionCache};
use via::queue::{Outcome, WorkQueue};
use via::{Control, DescriptorAddress, DescriptorRef, Status};

/// A work queue. Also holds the caches and the protection tag for lookups of its descriptors' memory, and the
/// completion queue and callbacks to notify.
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

    /// Completes the oldest descriptor. If the descriptor's memory has been deregistered, only the queue stores the
    /// outcome.
    pub(crate) fn complete(&mut self, nic: &Card, outcome: Outcome) -> Result<(), Overrun> {
        if let Some(front) = self.work.front()
            && let Some(descriptor) = descriptor(&mut self.descriptors, nic, self.ptag, front)
        {
            descriptor.complete(outcome.status, outcome.length, outcome.immediate);
        }
        self.work.complete(outcome);
        self.notices.completed(&mut self.work, nic)
    }

    /// Completes all outstanding descriptors with a flush error. `operation` returns the status bits for a
    /// descriptor's operation; its argument is empty if the descriptor's memory has been deregistered. Ignores an
    /// overrun of the completion queue, because `CqCore::push` reports the overrun.
    pub(crate) fn flush(&mut self, nic: &Card, operation: impl Fn(Control) -> Status) {
        while let Some(front) = self.work.front() {
            let descriptor = descriptor(&mut self.descriptors, nic, self.ptag, front);
            let control = descriptor.map_or(Control::empty(), |d| d.control());
            let status = operation(control.operation()) | Status::DESC_FLUSHED_ERROR;
            let _ = self.complete(nic, Outcome::error(status));
        }
    }
}

/// Returns the descriptor at an address, if the NIC may use this memory.
#[inline(always)]
pub(crate) fn descriptor<'a>(
    cache: &'a mut RegionCache,
    nic: &Card,
    ptag: Ptag,
    at: DescriptorAddress,
) -> Option<DescriptorRef<'a>> {
    cache.find(&nic.table, at.handle.raw(), ptag)?.descriptor_at(at.address)
}

/// Returns a descriptor's number of segments, after checking its form. `foreign` are the control bits that are invalid
/// in this queue.
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

/// Returns the address and length of segment `i` of a descriptor. Checks only the segment's first `used` bytes, so
/// the caller must not use the other bytes. The pointer is valid while the queue's lock is held, because
/// deregistering waits for the lock.
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
        // The caller uses no byte, so the segment's address and handle are ignored.
        return Ok((NonNull::dangling(), segment.length));
    }
    let memory = cache.find(&nic.table, segment.handle, ptag).ok_or(Status::PROTECTION_ERROR)?;
    let at = memory.range(segment.address, used).ok_or(Status::PROTECTION_ERROR)?;
    Ok((at, segment.length))
}

/// The data segments of a descriptor from `first` on, treated as one contiguous range.
pub(crate) struct Gather<'a> {
    pub(crate) descriptor: DescriptorRef<'a>,
    pub(crate) nic: &'a Card,
    pub(crate) ptag: Ptag,
    /// Index of the first data segment. `count` is the index after the last data segment.
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

    /// Returns the total length of the segments, and checks all of them. Saturates at `u32::MAX`.
    pub(crate) fn total(&self, data: &mut RegionCache) -> Result<u32, Status> {
        let mut total = 0u32;
        for i in self.first..self.count {
            total = total.saturating_add(self.segment(i, u32::MAX, data)?.1);
        }
        Ok(total)
    }

    /// Checks that bytes `from..from + len` of the segments are registered memory. Does not check the bytes behind
    /// this range. Some programs post receives that name more memory than is registered, and a hardware NIC also
    /// checks only the memory that it uses.
    ///
    /// # Errors
    /// [`Status::LENGTH_ERROR`] if the segments are too short; another status if the memory is invalid.
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

    /// Splits bytes `from..from + len` of the segments into contiguous parts. Calls `each` with the address, the
    /// offset and the length of each part, in order. The offset counts from the first segment's first byte. Returns
    /// a format error if the parts have fewer than `len` bytes in total. This happens if the program changes the
    /// descriptor meanwhile.
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
            // SAFETY: `skip` is less than the segment's length `size` and at most `used`, so the result is within the
            // checked range.
            let at = unsafe { at.add(skip as usize) };
            each(at, from + done, part)?;
            skip = 0;
            done += part;
        }
        if done == len { Ok(()) } else { Err(Status::FORMAT_ERROR.into()) }
    }
}
