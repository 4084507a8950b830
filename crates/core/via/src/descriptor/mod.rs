//! Descriptors: a program's requests to a NIC to send or to receive.
//!
//! A descriptor lies in registered memory at a multiple of [`ALIGNMENT`], and stays there until it is done. A
//! descriptor has a control segment of 32 bytes, then up to [`SEGMENTS_MAX`] segments of 16 bytes. C programs use the
//! same layout. Every field is an atomic, because programs may read the status while the NIC writes it. A NIC loads
//! each field on which it decides exactly once.
//!
//! [`Descriptor`] is storage for a descriptor with two segments, 64 bytes. A longer descriptor has further segments
//! after it. [`DescriptorRef`] gives access to a descriptor of any length, and [`Work`] is a NIC's checked copy of a
//! descriptor.

mod work;

use crate::flags::{Control, Status};
use crate::tag::MemHandle;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
pub use work::{One, Segments, Work};

/// Alignment of descriptors in bytes (`VIP_DESCRIPTOR_ALIGNMENT`).
pub const ALIGNMENT: usize = 64;
/// Largest number of segments of a descriptor, without its control segment.
pub const SEGMENTS_MAX: usize = 252;

/// The first 32 bytes of a descriptor (`VIP_CONTROL_SEGMENT`).
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
    /// Completes the descriptor; for NICs. Stores the status last.
    #[inline]
    pub fn complete(&self, status: Status, length: u32, immediate: Option<u32>) {
        let mut status = status | Status::DONE;
        if let Some(immediate) = immediate {
            self.immediate.store(immediate, Ordering::Relaxed);
            status |= Status::IMMEDIATE;
        }
        self.length.store(length, Ordering::Relaxed);
        // SYNC: pairs with the Acquire load in [`DescriptorRef::status`]: a thread that sees the status sees all
        // earlier stores.
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

/// Contents of a data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSegment {
    /// Address of the first byte, in the program's address space.
    pub address: u64,
    /// Raw handle of the region that contains the bytes; see [`MemHandle`].
    pub handle: u32,
    /// Number of bytes.
    pub length: u32,
}

/// The address segment of an RDMA: the position in the peer's memory to write to or read from. The number of bytes is
/// the sum of the data segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteSegment {
    /// Address of the first byte, in the peer's address space.
    pub address: u64,
    /// Raw handle of the peer's region.
    pub handle: u32,
}

/// Position of a descriptor in registered memory. The program posts this value, and gets it back when the descriptor is
/// done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DescriptorAddress {
    /// Address of the descriptor's first byte.
    pub address: u64,
    /// Handle of the region that contains the descriptor.
    pub handle: MemHandle,
}

/// A reference to a descriptor, with as many segments as its region has room for.
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

/// The error for more segments than the region has room for, or than [`SEGMENTS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} segments do not fit: there is room for {room}")]
pub struct TooManySegments {
    /// Number of segments given.
    pub wanted: usize,
    /// Number of segments that fit.
    pub room: usize,
}

impl Descriptor {
    /// Returns a reference to the descriptor.
    pub fn as_ref(&self) -> DescriptorRef<'_> {
        DescriptorRef::new(&self.control, &self.segments)
    }
}

impl<'m> DescriptorRef<'m> {
    /// Builds a reference from the control segment and the segments after it in memory.
    pub(crate) fn new(control: &'m ControlSegment, segments: &'m [Segment]) -> DescriptorRef<'m> {
        DescriptorRef { control, segments: &segments[..segments.len().min(SEGMENTS_MAX)] }
    }

    /// Fills in the descriptor for a send or a receive (`OP_SENDRECV`), and clears the status. Immediate data is for
    /// sends; a receive gets the sender's immediate data on completion.
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

    /// Fills in the descriptor for an RDMA write (`OP_RDMAWRITE`) or read (`OP_RDMAREAD`), and clears the status.
    /// `control` gives the operation, optionally with [`Control::QFENCE`]. The address segment is the first segment and
    /// counts as one.
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

    /// Returns the address segment, if there is one.
    #[inline]
    pub fn remote(&self) -> Option<RemoteSegment> {
        let DataSegment { address, handle, .. } = self.segment(0)?;
        Some(RemoteSegment { address, handle })
    }

    /// Sets only the control word.
    #[inline]
    pub fn set_control(&self, control: Control) {
        self.control.control.store(control.bits(), Ordering::Relaxed);
    }

    /// Sets only the number of segments, unchecked. A NIC completes a descriptor with an impossible number with
    /// [`Status::FORMAT_ERROR`].
    pub fn set_seg_count(&self, count: u16) {
        self.control.seg_count.store(count, Ordering::Relaxed);
    }

    /// Returns the control word.
    #[inline]
    pub fn control(&self) -> Control {
        Control::from_bits_retain(self.control.control.load(Ordering::Relaxed))
    }

    /// Returns the number of segments in the control segment, unchecked.
    #[inline]
    pub fn seg_count(&self) -> usize {
        usize::from(self.control.seg_count.load(Ordering::Relaxed))
    }

    /// Returns the number of segments that the region has room for, at most [`SEGMENTS_MAX`].
    #[inline]
    pub fn room(&self) -> usize {
        self.segments.len()
    }

    /// Returns segment `i` as a data segment; `None` beyond [`DescriptorRef::room`].
    #[inline]
    pub fn segment(&self, i: usize) -> Option<DataSegment> {
        self.segments.get(i).map(|segment| DataSegment {
            address: segment.data.load(Ordering::Relaxed),
            handle: segment.handle.load(Ordering::Relaxed),
            length: segment.length.load(Ordering::Relaxed),
        })
    }

    /// Returns the immediate data: the program's for a send, the peer's for a completed receive.
    #[inline]
    pub fn immediate(&self) -> u32 {
        self.control.immediate.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes transferred, once the descriptor is done.
    #[inline]
    pub fn length(&self) -> u32 {
        self.control.length.load(Ordering::Relaxed)
    }

    /// Returns the status. If the status contains [`Status::DONE`], the caller sees the rest of the descriptor and the
    /// received bytes as the NIC wrote them.
    #[inline]
    pub fn status(&self) -> Status {
        // SYNC: pairs with the Release store in `ControlSegment::complete`.
        Status::from_bits_retain(self.control.status.load(Ordering::Acquire))
    }

    /// Clears the status when a descriptor is posted; for NICs.
    #[inline]
    pub fn clear_status(&self) {
        self.control.status.store(0, Ordering::Relaxed);
    }

    /// Completes the descriptor; for NICs. See [`ControlSegment::complete`].
    #[inline]
    pub fn complete(&self, status: Status, length: u32, immediate: Option<u32>) {
        self.control.complete(status, length, immediate);
    }

    /// Returns the segment that [`ControlSegment::complete`] writes; for NICs.
    #[inline]
    pub fn control_segment(&self) -> &'m ControlSegment {
        self.control
    }

    /// Returns the program's link to another descriptor: its address and raw handle. NICs ignore the link.
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
