//! Memory that may be registered: an address range, and what keeps it valid.
//!
//! This is the one place of the crate with unsafe code. It turns addresses that descriptors name
//! into references and pointers, after checking that they lie in the range.

#![allow(unsafe_code)]

use crate::descriptor::{
    ALIGNMENT, ControlSegment, DataSegment, DescriptorRef, SEGMENTS_MAX, Segment,
};
use crate::tag::MemHandle;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Arc;

/// A range of this process's memory, for descriptors and data. Clones are the same memory.
///
/// While a descriptor that names some bytes is posted, they belong to the NIC (VIA 1.0): a
/// program that reads or writes them then finds, or sends, bytes of no particular value.
///
/// ```
/// use via::Memory;
///
/// let memory = Memory::zeroed(8192);
/// assert!(memory.write(4096, b"message"));
/// let mut bytes = [0; 7];
/// assert!(memory.read(4096, &mut bytes));
/// assert_eq!(&bytes, b"message");
/// assert!(!memory.write(8190, b"message"), "not all of it is within");
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
    /// Keeps it valid, if it is ours to free.
    _allocation: Option<Arc<Allocation>>,
}

#[derive(Debug)]
struct Allocation {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a `Memory` is an address range that stays valid while it lives. Its bytes are only
// reached by copies, whose races spoil no more than the bytes, and by atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}
// SAFETY: an allocation may be given back by any thread, and is nothing else here.
unsafe impl Send for Allocation {}
// SAFETY: there is nothing to do with a shared one.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this layout, and this is the last use.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl Memory {
    /// Fresh memory of `len` bytes (at least one), zeroed, page-aligned, freed with its last
    /// clone. A registered region is such a clone.
    pub fn zeroed(len: usize) -> Memory {
        const PAGE: usize = 4096;
        let len = len.max(1);
        // A page more, and aligned by hand: allocators hand out untouched memory for ordinary
        // alignments only.
        let layout = len.checked_add(PAGE).and_then(|size| Layout::from_size_align(size, 8).ok());
        let Some(layout) = layout else { panic!("{len} bytes is more memory than there can be") };
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        let skip = start.as_ptr().align_offset(PAGE);
        // SAFETY: less than a page is skipped, which leaves `len` bytes of the allocation.
        let base = unsafe { start.add(skip) };
        Memory { base, len, _allocation: Some(Arc::new(Allocation { start, layout })) }
    }

    /// Memory that the caller keeps valid: what a C program registers.
    ///
    /// # Safety
    /// The `len` bytes at `base` must be valid for reads and writes until the value and all its
    /// clones are gone; those which NICs hold count until `deregister_mem` has returned (after
    /// that no NIC touches the memory). Rust code must hold no reference into it meanwhile.
    pub unsafe fn from_raw(base: NonNull<u8>, len: usize) -> Memory {
        Memory { base, len, _allocation: None }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes, as only [`Memory::from_raw`] can make it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of byte `at`, as descriptors carry it.
    #[inline]
    pub fn address(&self, at: usize) -> u64 {
        self.base.as_ptr() as u64 + at as u64
    }

    /// A data segment of `length` bytes from byte `at` on, under the handle of a registration.
    /// That it lies within the memory is checked when it is used.
    pub fn segment(&self, at: usize, length: u32, handle: MemHandle) -> DataSegment {
        DataSegment { address: self.address(at), handle: handle.raw(), length }
    }

    /// Where byte `at` lies, counted from the beginning, if `len` bytes from there on are within.
    #[inline]
    fn within(&self, at: usize, len: usize) -> Option<NonNull<u8>> {
        if at > self.len || len > self.len - at {
            return None;
        }
        // SAFETY: `at` is at most the range's length, so the result is in it or just behind.
        Some(unsafe { self.base.add(at) })
    }

    /// The bytes at an address, as a pointer good for `len` bytes; `None` if not all are within.
    #[inline]
    pub fn range(&self, address: u64, len: u32) -> Option<NonNull<u8>> {
        let at = address.wrapping_sub(self.base.as_ptr() as u64);
        self.within(usize::try_from(at).ok()?, len as usize)
    }

    /// The descriptor at an address: `None` unless it is aligned to 64 bytes and its first 64
    /// bytes are within.
    #[inline]
    pub fn descriptor_at(&self, address: u64) -> Option<DescriptorRef<'_>> {
        let at = address.wrapping_sub(self.base.as_ptr() as u64);
        self.descriptor(usize::try_from(at).ok()?)
    }

    /// The descriptor that begins at byte `at`: `None` unless its address is a multiple of 64 and
    /// its first 64 bytes are within.
    #[inline]
    pub fn descriptor(&self, at: usize) -> Option<DescriptorRef<'_>> {
        const CONTROL: usize = size_of::<ControlSegment>();
        let start = self.within(at, ALIGNMENT)?;
        if !(start.as_ptr() as usize).is_multiple_of(ALIGNMENT) {
            return None;
        }
        let room = ((self.len - at - CONTROL) / size_of::<Segment>()).min(SEGMENTS_MAX);
        // SAFETY: the control segment and `room` segments lie in the range, which lives as long
        // as `self`; both types consist of atomics, for which any bytes are valid and concurrent
        // access is no race; the address is aligned for both.
        unsafe {
            let control = start.cast::<ControlSegment>().as_ref();
            let segments = start.add(CONTROL).cast::<Segment>();
            Some(DescriptorRef::new(control, core::slice::from_raw_parts(segments.as_ptr(), room)))
        }
    }

    /// Copies bytes in, from byte `at` on; false, and nothing copied, if they do not fit.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.within(at, bytes.len()) else { return false };
        // SAFETY: the target is within the range; the source is a live slice, and no slice lies
        // in a range (`from_raw`'s contract, and `zeroed` lends none).
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        true
    }

    /// Copies bytes out, from byte `at` on; false, and nothing copied, if they are not within.
    #[inline]
    pub fn read(&self, at: usize, out: &mut [u8]) -> bool {
        let Some(from) = self.within(at, out.len()) else { return false };
        // SAFETY: as for `write`, the other way round.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_beyond_the_end_is_reached() {
        let memory = Memory::zeroed(200);
        assert!(memory.write(190, &[1; 10]) && !memory.write(191, &[1; 10]));
        assert!(!memory.read(201, &mut []) && memory.read(200, &mut []));
        assert!(!memory.read(usize::MAX, &mut [0; 2]));
        assert!(memory.range(memory.address(0), 200).is_some());
        assert!(memory.range(memory.address(0), 201).is_none());
        assert!(memory.range(memory.address(0).wrapping_sub(1), 1).is_none());
        assert!(memory.range(u64::MAX, u32::MAX).is_none());
    }

    #[test]
    fn a_descriptor_has_the_room_that_there_is() {
        let memory = Memory::zeroed(8192);
        assert_eq!(memory.descriptor(0).unwrap().room(), SEGMENTS_MAX);
        assert_eq!(memory.descriptor(8192 - 128).unwrap().room(), 6);
        assert_eq!(memory.descriptor(8192 - 64).unwrap().room(), 2);
        assert!(memory.descriptor(8192).is_none());
        assert!(memory.descriptor(32).is_none(), "not aligned");
        let d = memory.descriptor_at(memory.address(64)).unwrap();
        let data: Vec<_> =
            (0..252).map(|i| DataSegment { address: i, handle: 1, length: 1 }).collect();
        d.prepare(&data, None).unwrap();
        assert_eq!(d.segment(251), Some(data[251]));
        let mut last = [0; 8];
        memory.read(64 + 32 + 251 * 16, &mut last);
        assert_eq!(u64::from_le_bytes(last), 251);
    }
}
