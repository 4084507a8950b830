//! From a descriptor to its memory. Every access is checked when it happens.

use crate::pins::Pins;
use crate::recent::Recent;
use crate::source::{Source, View};
use via::descriptor::{Segments, Work};
use via::memory::{MemoryTable, Region};
use via::queue::Outcome;
use via::{DataSegment, DescriptorAddress, DescriptorRef, Memory, Ptag, Status, WorkQueueKind};

/// Memory that a VI may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'t> {
    pub(crate) table: &'t MemoryTable,
    pub(crate) pins: &'t Pins,
    pub(crate) recent: &'t Recent,
    pub(crate) ptag: Ptag,
}

/// A right of a peer to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    Write,
    Read,
}

impl Access<'_> {
    /// Calls `use_it` with the region of a handle, if there is one that the VI may use.
    fn region<R>(&self, handle: u32, use_it: impl FnOnce(&Region) -> R) -> Option<R> {
        let with = |region: &Region| (region.ptag() == self.ptag).then(|| use_it(region));
        self.recent.with(self.table, handle, with)?
    }

    /// Calls `use_it` with a descriptor, if it exists.
    pub(crate) fn descriptor<R>(
        &self,
        at: DescriptorAddress,
        use_it: impl FnOnce(DescriptorRef<'_>) -> R,
    ) -> Option<R> {
        let with = |region: &Region| region.memory().descriptor_at(at.address).map(use_it);
        self.region(at.handle.raw(), with)?
    }

    /// Writes the outcome to the descriptor. If its memory is gone, only the work queue has the outcome.
    pub(crate) fn complete(&self, at: DescriptorAddress, outcome: &Outcome) {
        let Outcome { status, length, immediate } = *outcome;
        self.descriptor(at, |descriptor| descriptor.complete(status, length, immediate));
    }

    /// Reads a descriptor of the given queue.
    ///
    /// # Errors
    /// The descriptor's final status.
    pub(crate) fn load(&self, at: DescriptorAddress, queue: WorkQueueKind) -> Result<Work, Status> {
        let work = self.descriptor(at, |descriptor| descriptor.work(queue));
        work.unwrap_or(Err(Status::PROTECTION_ERROR))
    }

    /// Calls `use_it` with a segment's memory and the segment's start in it. Does nothing for an empty segment, which
    /// needs no memory.
    pub(crate) fn segment(
        &self,
        segment: &DataSegment,
        use_it: impl FnOnce(&Memory, usize),
    ) -> Result<(), Status> {
        if segment.length == 0 {
            return Ok(());
        }
        let with = |region: &Region| {
            let memory = region.memory();
            memory.range(segment.address, segment.length)?;
            use_it(memory, (segment.address - memory.address(0)) as usize);
            Some(())
        };
        self.region(segment.handle, with).flatten().ok_or(Status::PROTECTION_ERROR)
    }

    /// Copies the bytes of data segments to `room`, which has exactly their length.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    pub(crate) fn gather(&self, data: &[DataSegment], room: &mut [u8]) -> Result<(), Status> {
        let mut rest = room;
        for segment in data {
            let (into, later) = rest.split_at_mut(rest.len().min(segment.length as usize));
            self.segment(segment, |memory, at| {
                if !self.pins.read(segment.handle, at, into) {
                    memory.read(at, into);
                }
            })?;
            rest = later;
        }
        Ok(())
    }

    /// Returns the only non-empty segment, if the VI may use it. Returns `None` if the bytes must be gathered.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    pub(crate) fn lend(&self, data: &[DataSegment]) -> Result<Option<DataSegment>, Status> {
        let mut used = data.iter().filter(|segment| segment.length > 0);
        let (Some(one), None, false) = (used.next(), used.next(), self.pins.is_on()) else {
            return Ok(None);
        };
        self.segment(one, |_, _| ()).map(|()| Some(*one))
    }

    /// Calls `use_it` with outgoing bytes.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`]: the VI may no longer use their memory.
    pub(crate) fn view(
        &self,
        source: &Source,
        use_it: impl FnOnce(View<'_>),
    ) -> Result<(), Status> {
        match source {
            Source::Copied(chunk) => {
                use_it(View::Copied(chunk));
                Ok(())
            }
            Source::Lent(segment) => self.segment(segment, |memory, at| {
                use_it(View::Lent(memory, at, segment.length as usize));
            }),
        }
    }

    /// Copies outgoing bytes, so that the program may change or free its memory.
    pub(crate) fn keep(&self, source: &mut Source) {
        if let Source::Lent(segment) = source {
            let mut bytes = vec![0; segment.length as usize];
            // Bytes that cannot be read cannot be sent either.
            if self.gather(&[*segment], &mut bytes).is_ok() {
                *source = Source::Copied(bytes.into());
            }
        }
    }

    /// Checks that the VI may use all segments.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    pub(crate) fn check(&self, data: &[DataSegment]) -> Result<(), Status> {
        data.iter().try_for_each(|segment| self.segment(segment, |_, _| ()))
    }

    /// Writes bytes into data segments in order: all of them or none. Does not check segments that receive no bytes.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`], [`Status::LENGTH_ERROR`].
    pub(crate) fn scatter(&self, data: &[DataSegment], bytes: &[u8]) -> Result<(), Status> {
        self.put(&self.reserve(data, bytes.len())?, 0, bytes)
    }

    /// Returns data segments cut to `len` bytes. The VI may use all of them.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`], [`Status::LENGTH_ERROR`].
    pub(crate) fn reserve(&self, data: &[DataSegment], len: usize) -> Result<Segments, Status> {
        let mut left = len;
        let cut = |segment: &DataSegment| {
            let length = left.min(segment.length as usize);
            left -= length;
            DataSegment { length: length as u32, ..*segment }
        };
        let data: Segments = data.iter().map(cut).collect();
        self.check(&data)?;
        if left > 0 { Err(Status::LENGTH_ERROR) } else { Ok(data) }
    }

    /// Writes bytes into data segments, from byte `at` of their concatenation on. The segments must have room for all
    /// bytes.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`]: the VI may no longer use a segment. Earlier segments have been written.
    pub(crate) fn put(
        &self,
        data: &[DataSegment],
        mut at: usize,
        bytes: &[u8],
    ) -> Result<(), Status> {
        let mut rest = bytes;
        for segment in data {
            let skipped = at.min(segment.length as usize);
            at -= skipped;
            let (now, later) = rest.split_at(rest.len().min(segment.length as usize - skipped));
            if !now.is_empty() {
                self.segment(segment, |memory, begin| {
                    // The range has been checked.
                    let _ = memory.write(begin + skipped, now);
                })?;
            }
            rest = later;
        }
        Ok(())
    }

    fn remote(&self, right: Right, segment: &DataSegment) -> Option<()> {
        if segment.length == 0 {
            return Some(());
        }
        let attributes = self.region(segment.handle, Region::attributes)?;
        let allowed = match right {
            Right::Write => attributes.enable_rdma_write,
            Right::Read => attributes.enable_rdma_read,
        };
        allowed.then_some(())
    }

    /// Checks that a peer's RDMA may write to a segment's region; `None` if not.
    pub(crate) fn may_write(&self, segment: &DataSegment) -> Option<()> {
        self.remote(Right::Write, segment)
    }

    /// Returns the memory for a peer's RDMA read; `None` if the peer has no right to read.
    pub(crate) fn remote_read(
        &self,
        address: u64,
        handle: u32,
        length: u32,
    ) -> Option<DataSegment> {
        let segment = DataSegment { address, handle, length };
        self.remote(Right::Read, &segment)?;
        Some(segment)
    }
}
