//! Descriptors: how a program tells a NIC what to send, or where to receive.
//!
//! A descriptor lies in registered memory at a multiple of [`ALIGNMENT`] and stays there until it
//! is done: a control segment of 32 bytes, then up to [`SEGMENTS_MAX`] segments of 16. The layout
//! is the one C programs use. Every field is an atomic, because programs may read the status while
//! the NIC writes it; a NIC loads what it decides by exactly once.
//!
//! [`Descriptor`] is the storage of a descriptor with two segments, 64 bytes; a longer one simply
//! continues. [`DescriptorRef`] is the way to use either, and [`Work`] what a NIC reads of one.

mod work;

use crate::flags::{Control, Status};
use crate::tag::MemHandle;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
pub use work::{One, Segments, Work};

/// Descriptors begin at multiples of this many bytes (`VIP_DESCRIPTOR_ALIGNMENT`).
pub const ALIGNMENT: usize = 64;
/// Segments that a descriptor can have beside its control segment.
pub const SEGMENTS_MAX: usize = 252;

/// The first 32 bytes (`VIP_CONTROL_SEGMENT`).
#[derive(Debug, Default)]
#[repr(C)]
pub struct ControlSegment {
    next: AtomicU64,
    next_handle: AtomicU32,
    seg_count: AtomicU16,
    control: AtomicU16,
    reserved: AtomicU32,
    immediate: AtomicU32,
    length: AtomicU32,
    status: AtomicU32,
}

impl ControlSegment {
    /// For NICs: the descriptor is done. The status is stored last.
    #[inline]
    pub fn complete(&self, status: Status, length: u32, immediate: Option<u32>) {
        let mut status = status | Status::DONE;
        if let Some(immediate) = immediate {
            self.immediate.store(immediate, Ordering::Relaxed);
            status |= Status::IMMEDIATE;
        }
        self.length.store(length, Ordering::Relaxed);
        // SYNC: a thread that sees the status sees what was stored before it.
        self.status.store(status.bits(), Ordering::Release);
    }
}

/// A data segment, or the address segment of an RDMA, whose `length` is reserved.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Segment {
    data: AtomicU64,
    handle: AtomicU32,
    length: AtomicU32,
}

/// Storage of a descriptor with two segments (`VIP_DESCRIPTOR`).
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Descriptor {
    control: ControlSegment,
    segments: [Segment; 2],
}

/// A data segment's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSegment {
    /// Address of the first byte, in the program's address space.
    pub address: u64,
    /// Raw handle of the region in which the bytes lie; see [`MemHandle`].
    pub handle: u32,
    /// Bytes.
    pub length: u32,
}

/// The address segment of an RDMA: where in the peer's memory it writes to or reads from. As many
/// bytes as the data segments have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteSegment {
    /// Address of the first byte, in the peer's address space.
    pub address: u64,
    /// Raw handle of the peer's region.
    pub handle: u32,
}

/// Where a descriptor is: what is posted, and handed back when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DescriptorAddress {
    /// Address of its first byte.
    pub address: u64,
    /// The region that it lies in.
    pub handle: MemHandle,
}

/// A descriptor with as many segments as its region has room for.
///
/// ```
/// use via::{MemHandle, Memory};
///
/// let memory = Memory::zeroed(8192);
/// # let handle = MemHandle::from_raw(17).unwrap();
/// // The descriptor lies at byte 0, the message at byte 4096 of a region that is registered as `handle`.
/// let descriptor = memory.descriptor(0).unwrap();
/// descriptor.prepare(&[memory.segment(4096, 100, handle)], Some(7))?;
/// assert_eq!((descriptor.length(), descriptor.immediate()), (100, 7));
/// assert!(descriptor.status().is_empty(), "not done");
/// # Ok::<(), via::descriptor::TooManySegments>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct DescriptorRef<'m> {
    control: &'m ControlSegment,
    segments: &'m [Segment],
}

/// More segments than the descriptor's place has room for, or than [`SEGMENTS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} segments do not fit: there is room for {room}")]
pub struct TooManySegments {
    /// How many were given.
    pub wanted: usize,
    /// How many fit.
    pub room: usize,
}

impl Descriptor {
    /// The descriptor, for use.
    pub fn as_ref(&self) -> DescriptorRef<'_> {
        DescriptorRef::new(&self.control, &self.segments)
    }
}

impl<'m> DescriptorRef<'m> {
    /// A descriptor from its parts, which lie behind one another in memory.
    pub(crate) fn new(control: &'m ControlSegment, segments: &'m [Segment]) -> DescriptorRef<'m> {
        DescriptorRef { control, segments: &segments[..segments.len().min(SEGMENTS_MAX)] }
    }

    /// Fills the descriptor in for a send or a receive (`OP_SENDRECV`), status cleared.
    /// Immediate data is for sends; a receive finds it with its completion.
    ///
    /// # Errors
    /// [`TooManySegments`].
    pub fn prepare(
        &self,
        data: &[DataSegment],
        immediate: Option<u32>,
    ) -> Result<(), TooManySegments> {
        if data.len() > self.segments.len() {
            return Err(TooManySegments { wanted: data.len(), room: self.segments.len() });
        }
        let mut total = 0u32;
        for (segment, value) in self.segments.iter().zip(data) {
            segment.data.store(value.address, Ordering::Relaxed);
            segment.handle.store(value.handle, Ordering::Relaxed);
            segment.length.store(value.length, Ordering::Relaxed);
            total = total.saturating_add(value.length);
        }
        let mut control = Control::OP_SENDRECV;
        if let Some(immediate) = immediate {
            control |= Control::IMMEDIATE;
            self.control.immediate.store(immediate, Ordering::Relaxed);
        }
        self.control.reserved.store(0, Ordering::Relaxed);
        self.control.length.store(total, Ordering::Relaxed);
        self.control.seg_count.store(data.len() as u16, Ordering::Relaxed);
        self.set_control(control);
        self.control.status.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Fills the descriptor in for an RDMA write (`OP_RDMAWRITE`) or read (`OP_RDMAREAD`), which
    /// `control` says, maybe with [`Control::QFENCE`]; status cleared. The address segment is the
    /// first one and counts.
    ///
    /// # Errors
    /// [`TooManySegments`].
    pub fn prepare_rdma(
        &self,
        control: Control,
        remote: RemoteSegment,
        data: &[DataSegment],
        immediate: Option<u32>,
    ) -> Result<(), TooManySegments> {
        let RemoteSegment { address, handle } = remote;
        let total = data.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.length));
        let mut all = Vec::with_capacity(data.len() + 1);
        all.push(DataSegment { address, handle, length: 0 });
        all.extend_from_slice(data);
        self.prepare(&all, immediate)?;
        self.control.length.store(total, Ordering::Relaxed);
        self.set_control(self.control() | control);
        Ok(())
    }

    /// The address segment, if there is one.
    #[inline]
    pub fn remote(&self) -> Option<RemoteSegment> {
        let DataSegment { address, handle, .. } = self.segment(0)?;
        Some(RemoteSegment { address, handle })
    }

    /// Sets the control word alone.
    #[inline]
    pub fn set_control(&self, control: Control) {
        self.control.control.store(control.bits(), Ordering::Relaxed);
    }

    /// Sets the number of segments alone, unchecked: a NIC answers a number that cannot be with
    /// [`Status::FORMAT_ERROR`].
    pub fn set_seg_count(&self, count: u16) {
        self.control.seg_count.store(count, Ordering::Relaxed);
    }

    /// What the descriptor asks for.
    #[inline]
    pub fn control(&self) -> Control {
        Control::from_bits_retain(self.control.control.load(Ordering::Relaxed))
    }

    /// How many segments it says it has.
    #[inline]
    pub fn seg_count(&self) -> usize {
        usize::from(self.control.seg_count.load(Ordering::Relaxed))
    }

    /// How many segments its place in the region has room for, at most [`SEGMENTS_MAX`].
    #[inline]
    pub fn room(&self) -> usize {
        self.segments.len()
    }

    /// Segment `i` as a data segment; `None` beyond [`DescriptorRef::room`].
    #[inline]
    pub fn segment(&self, i: usize) -> Option<DataSegment> {
        self.segments.get(i).map(|segment| DataSegment {
            address: segment.data.load(Ordering::Relaxed),
            handle: segment.handle.load(Ordering::Relaxed),
            length: segment.length.load(Ordering::Relaxed),
        })
    }

    /// The immediate data: the program's for a send, the peer's in a finished receive.
    #[inline]
    pub fn immediate(&self) -> u32 {
        self.control.immediate.load(Ordering::Relaxed)
    }

    /// Bytes transferred, once the descriptor is done.
    #[inline]
    pub fn length(&self) -> u32 {
        self.control.length.load(Ordering::Relaxed)
    }

    /// What has become of it. When it says [`Status::DONE`], the rest of the descriptor and the
    /// received bytes are seen as the NIC left them.
    #[inline]
    pub fn status(&self) -> Status {
        // SYNC: pairs with the Release store in `complete`.
        Status::from_bits_retain(self.control.status.load(Ordering::Acquire))
    }

    /// For NICs, when a descriptor is posted: not done yet.
    #[inline]
    pub fn clear_status(&self) {
        self.control.status.store(0, Ordering::Relaxed);
    }

    /// For NICs: the descriptor is done; see [`ControlSegment::complete`].
    #[inline]
    pub fn complete(&self, status: Status, length: u32, immediate: Option<u32>) {
        self.control.complete(status, length, immediate);
    }

    /// For NICs: the part in which the descriptor's end is told.
    #[inline]
    pub fn control_segment(&self) -> &'m ControlSegment {
        self.control
    }

    /// The program's link to another descriptor, address and raw handle. No NIC looks at it.
    pub fn next(&self) -> (u64, u32) {
        let handle = self.control.next_handle.load(Ordering::Relaxed);
        (self.control.next.load(Ordering::Relaxed), handle)
    }

    /// Sets the program's link to another descriptor.
    pub fn set_next(&self, address: u64, handle: u32) {
        self.control.next.store(address, Ordering::Relaxed);
        self.control.next_handle.store(handle, Ordering::Relaxed);
    }
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Descriptor>() == 64 && align_of::<Descriptor>() == ALIGNMENT);
    assert!(size_of::<ControlSegment>() == 32 && size_of::<Segment>() == 16);
    assert!(offset_of!(ControlSegment, next) == 0);
    assert!(offset_of!(ControlSegment, next_handle) == 8);
    assert!(offset_of!(ControlSegment, seg_count) == 12);
    assert!(offset_of!(ControlSegment, control) == 14);
    assert!(offset_of!(ControlSegment, reserved) == 16);
    assert!(offset_of!(ControlSegment, immediate) == 20);
    assert!(offset_of!(ControlSegment, length) == 24);
    assert!(offset_of!(ControlSegment, status) == 28);
    assert!(offset_of!(Descriptor, segments) == 32);
    assert!(offset_of!(Segment, data) == 0);
    assert!(offset_of!(Segment, handle) == 8);
    assert!(offset_of!(Segment, length) == 12);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_prepared_is_what_a_nic_reads() {
        let storage = Descriptor::default();
        let d = storage.as_ref();
        let data = [
            DataSegment { address: 0x1000, handle: 7, length: 100 },
            DataSegment { address: 0x2000, handle: 8, length: 28 },
        ];
        d.prepare(&data, Some(0xfeed)).unwrap();
        assert_eq!((d.seg_count(), d.control()), (2, Control::IMMEDIATE));
        assert_eq!(
            (d.segment(0), d.segment(1), d.segment(2)),
            (Some(data[0]), Some(data[1]), None)
        );
        assert_eq!((d.immediate(), d.length(), d.status()), (0xfeed, 128, Status::empty()));
        d.complete(Status::OP_RECEIVE, 5, Some(9));
        assert_eq!(d.status(), Status::DONE | Status::OP_RECEIVE | Status::IMMEDIATE);
        assert_eq!((d.length(), d.immediate()), (5, 9));
    }

    #[test]
    fn there_is_no_writing_beyond_the_room() {
        let storage = Descriptor::default();
        let data = [DataSegment { address: 0, handle: 0, length: 0 }; 3];
        let error = storage.as_ref().prepare(&data, None).unwrap_err();
        assert_eq!(error, TooManySegments { wanted: 3, room: 2 });
    }
}
