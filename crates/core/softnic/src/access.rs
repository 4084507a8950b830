//! From a descriptor to the memory that it names. Everything is checked when it is used.

use crate::pins::Pins;
use std::sync::Arc;
use via::memory::{MemoryTable, Region};
use via::queue::Outcome;
use via::{Control, DataSegment, DescriptorAddress, DescriptorRef, Ptag, RemoteSegment, Status};

/// What a descriptor asks for, read once.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) control: Control,
    pub(crate) remote: Option<RemoteSegment>,
    pub(crate) data: Vec<DataSegment>,
    pub(crate) immediate: Option<u32>,
}

impl Work {
    /// Bytes of all data segments; more than can be for more than can be.
    pub(crate) fn length(&self) -> u32 {
        self.data.iter().fold(0, |sum, segment| sum.saturating_add(segment.length))
    }
}

/// Memory that a VI may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'t> {
    pub(crate) table: &'t MemoryTable,
    pub(crate) pins: &'t Pins,
    pub(crate) ptag: Ptag,
}

/// What a peer may do with a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    Write,
    Read,
}

impl Access<'_> {
    fn region(&self, handle: u32) -> Option<Arc<Region>> {
        self.table.find(handle).filter(|region| region.ptag() == self.ptag)
    }

    /// Does something with a descriptor, if there is one.
    pub(crate) fn descriptor<R>(
        &self,
        at: DescriptorAddress,
        use_it: impl FnOnce(DescriptorRef<'_>) -> R,
    ) -> Option<R> {
        let region = self.region(at.handle.raw())?;
        region.memory().descriptor_at(at.address).map(use_it)
    }

    /// Tells the program in the descriptor itself. If its memory is gone, only the queue knows.
    pub(crate) fn complete(&self, at: DescriptorAddress, outcome: &Outcome) {
        let Outcome { status, length, immediate } = *outcome;
        self.descriptor(at, |descriptor| descriptor.complete(status, length, immediate));
    }

    /// Reads a descriptor of the send queue, or of the receive queue.
    ///
    /// # Errors
    /// The status that it ends in.
    pub(crate) fn load(&self, at: DescriptorAddress, receive: bool) -> Result<Work, Status> {
        let work = self.descriptor(at, |descriptor| {
            let (control, count) = (descriptor.control(), descriptor.seg_count());
            let rdma = control.operation() != Control::OP_SENDRECV;
            let bad = control.intersects(Control::RESERVED)
                || control.operation() == Control::OP_MASK
                || count > descriptor.room()
                || rdma && (receive || count == 0);
            if bad {
                return Err(Status::FORMAT_ERROR);
            }
            let first = usize::from(rdma);
            let immediate = control.contains(Control::IMMEDIATE) && !receive;
            Ok(Work {
                control,
                remote: descriptor.remote().filter(|_| rdma),
                data: (first..count).filter_map(|i| descriptor.segment(i)).collect(),
                immediate: immediate.then(|| descriptor.immediate()),
            })
        });
        work.unwrap_or(Err(Status::PROTECTION_ERROR))
    }

    /// A segment's region and where in it the segment begins. No bytes need no memory: `None`.
    fn segment(&self, segment: &DataSegment) -> Result<Option<(Arc<Region>, usize)>, Status> {
        if segment.length == 0 {
            return Ok(None);
        }
        let region = self.region(segment.handle).ok_or(Status::PROTECTION_ERROR)?;
        let memory = region.memory();
        memory.range(segment.address, segment.length).ok_or(Status::PROTECTION_ERROR)?;
        let at = (segment.address - memory.address(0)) as usize;
        Ok(Some((region, at)))
    }

    /// The bytes of data segments, one after the other.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    pub(crate) fn gather(&self, data: &[DataSegment]) -> Result<Vec<u8>, Status> {
        let mut bytes = Vec::new();
        for segment in data {
            if let Some((region, at)) = self.segment(segment)? {
                let begin = bytes.len();
                bytes.resize(begin + segment.length as usize, 0);
                if !self.pins.read(segment.handle, at, &mut bytes[begin..]) {
                    region.memory().read(at, &mut bytes[begin..]);
                }
            }
        }
        Ok(bytes)
    }

    /// Whether the VI may use all of the segments.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    pub(crate) fn check(&self, data: &[DataSegment]) -> Result<(), Status> {
        data.iter().try_for_each(|segment| self.segment(segment).map(drop))
    }

    /// Writes bytes into data segments, one after the other; all of them or none. Memory that no
    /// byte goes to is not looked at.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`], [`Status::LENGTH_ERROR`].
    pub(crate) fn scatter(&self, data: &[DataSegment], bytes: &[u8]) -> Result<(), Status> {
        let mut left = bytes.len();
        let cut = |segment: &DataSegment| {
            let length = left.min(segment.length as usize);
            left -= length;
            DataSegment { length: length as u32, ..*segment }
        };
        let data: Vec<DataSegment> = data.iter().map(cut).collect();
        self.check(&data)?;
        if left > 0 {
            return Err(Status::LENGTH_ERROR);
        }
        let mut rest = bytes;
        for segment in &data {
            let (now, later) = rest.split_at(rest.len().min(segment.length as usize));
            if let Some((region, at)) = self.segment(segment)? {
                region.memory().write(at, now);
            }
            rest = later;
        }
        Ok(())
    }

    fn remote(&self, right: Right, segment: &DataSegment) -> Option<()> {
        if segment.length == 0 {
            return Some(());
        }
        let attributes = self.region(segment.handle)?.attributes();
        let allowed = match right {
            Right::Write => attributes.enable_rdma_write,
            Right::Read => attributes.enable_rdma_read,
        };
        allowed.then_some(())
    }

    /// Writes what a peer's RDMA brings; `None` if it has no right to.
    pub(crate) fn remote_write(&self, address: u64, handle: u32, bytes: &[u8]) -> Option<()> {
        let segment = DataSegment { address, handle, length: bytes.len() as u32 };
        self.remote(Right::Write, &segment)?;
        self.scatter(&[segment], bytes).ok()
    }

    /// Reads what a peer's RDMA asks for; `None` if it has no right to.
    pub(crate) fn remote_read(&self, address: u64, handle: u32, length: u32) -> Option<Vec<u8>> {
        let segment = DataSegment { address, handle, length };
        self.remote(Right::Read, &segment)?;
        self.gather(&[segment]).ok()
    }
}
