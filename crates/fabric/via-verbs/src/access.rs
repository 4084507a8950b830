//! From a descriptor to the memory that it names.

use crate::card::Card;
use smallvec::SmallVec;
use sovia_verbs::Segment;
use std::sync::Arc;
use via::memory::Region;
use via::queue::Outcome;
use via::{Control, DataSegment, DescriptorAddress, DescriptorRef, Ptag, RemoteSegment, Status};

/// Regions that a VI remembers.
const RECENT: usize = 8;

/// Data segments, few in most descriptors.
pub(crate) type Segments = SmallVec<[DataSegment; 8]>;
/// The same as the device wants them.
pub(crate) type Keyed = SmallVec<[Segment; 8]>;

/// What a descriptor asks for, read once.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) control: Control,
    pub(crate) remote: Option<RemoteSegment>,
    pub(crate) data: Segments,
    pub(crate) immediate: Option<u32>,
}

impl Work {
    /// Bytes of all data segments; more than can be for more than can be.
    pub(crate) fn length(&self) -> u32 {
        self.data.iter().fold(0, |sum, segment| sum.saturating_add(segment.length))
    }

    /// What it is called in its status.
    pub(crate) fn operation(&self) -> Status {
        match self.control.operation() {
            Control::OP_RDMAWRITE => Status::OP_RDMA_WRITE,
            Control::OP_RDMAREAD => Status::OP_RDMA_READ,
            _ => Status::OP_SEND,
        }
    }
}

/// The regions that a VI used last, with their local keys: those are found without a lock.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    entries: Vec<(Arc<Region>, u32)>,
    next: usize,
}

/// Memory that a VI may use.
pub(crate) struct Access<'a> {
    pub(crate) card: &'a Card,
    pub(crate) recent: &'a mut Recent,
    pub(crate) ptag: Ptag,
}

impl Access<'_> {
    /// The region of that handle with its local key, if there is one that the VI may use.
    fn region(&mut self, handle: u32) -> Option<(&Region, u32)> {
        let entries = &mut self.recent.entries;
        let found = entries
            .iter()
            .position(|(region, _)| region.handle().raw() == handle && region.is_live());
        let place = match found {
            Some(place) => place,
            None => {
                let found = self.card.local(handle)?;
                entries.retain(|(region, _)| region.is_live());
                let place = self.recent.next % RECENT;
                self.recent.next = place + 1;
                if place < entries.len() {
                    entries[place] = found;
                    place
                } else {
                    entries.push(found);
                    entries.len() - 1
                }
            }
        };
        let (region, key) = &entries[place];
        (region.ptag() == self.ptag).then_some((region, *key))
    }

    /// Does something with a descriptor, if there is one.
    pub(crate) fn descriptor<R>(
        &mut self,
        at: DescriptorAddress,
        use_it: impl FnOnce(DescriptorRef<'_>) -> R,
    ) -> Option<R> {
        let (region, _) = self.region(at.handle.raw())?;
        region.memory().descriptor_at(at.address).map(use_it)
    }

    /// Tells the program in the descriptor itself. If its memory is gone, only the queue knows.
    pub(crate) fn complete(&mut self, at: DescriptorAddress, outcome: &Outcome) {
        let Outcome { status, length, immediate } = *outcome;
        self.descriptor(at, |descriptor| descriptor.complete(status, length, immediate));
    }

    /// Reads a descriptor of the send queue, or of the receive queue.
    ///
    /// # Errors
    /// The status that it ends in.
    pub(crate) fn load(&mut self, at: DescriptorAddress, receive: bool) -> Result<Work, Status> {
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

    /// Data segments with their keys, without empty ones.
    ///
    /// # Errors
    /// [`Status::PROTECTION_ERROR`].
    pub(crate) fn keyed(&mut self, data: &[DataSegment]) -> Result<Keyed, Status> {
        let mut keyed = Keyed::new();
        for segment in data.iter().filter(|segment| segment.length > 0) {
            let (region, key) = self.region(segment.handle).ok_or(Status::PROTECTION_ERROR)?;
            let within = region.memory().range(segment.address, segment.length).is_some();
            if !within {
                return Err(Status::PROTECTION_ERROR);
            }
            keyed.push(Segment { addr: segment.address, length: segment.length, lkey: key });
        }
        Ok(keyed)
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
