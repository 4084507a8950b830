//! Memory for registration: an address range that stays valid while the value exists.
//!
//! Only this module of the crate has unsafe code. The module turns addresses in descriptors into references and
//! pointers, after a check that they lie in the range.

#![allow(unsafe_code)]

use crate::descriptor::{
    ALIGNMENT, ControlSegment, DataSegment, DescriptorRef, SEGMENTS_MAX, Segment,
};
use crate::tag::MemHandle;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Arc;

/// A range of this process's memory, for descriptors and data. Clones refer to the same memory.
///
/// While a descriptor that refers to some bytes is posted, the bytes belong to the NIC (VIA 1.0). If the program reads
/// or writes them during this time, the values read or sent are unspecified.
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
    /// Owner of the memory, if [`Memory::zeroed`] allocated it.
    _allocation: Option<Arc<Allocation>>,
}

#[derive(Debug)]
struct Allocation {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a `Memory` is an address range that stays valid while the value lives. All access is by copies, where a race
// can corrupt only the copied bytes, or by atomics. Neither depends on the thread.
unsafe impl Send for Memory {}
// SAFETY: shared access is by copies, where a race can corrupt only the copied bytes, or by atomics, so threads may
// share the value.
unsafe impl Sync for Memory {}
// SAFETY: `dealloc` may run in any thread, and the pointer has no other use through this type.
unsafe impl Send for Allocation {}
// SAFETY: no method uses a shared `Allocation`.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this layout, and this is the last use.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl Memory {
    /// Allocates `len` bytes (at least one), zeroed and page-aligned. The last clone frees them. A registered region
    /// holds a clone.
    pub fn zeroed(len: usize) -> Memory {
        const PAGE: usize = 4096;
        let len = len.max(1);
        // Allocates one page more and aligns by hand, because allocators return untouched memory only for ordinary
        // alignments.
        let layout = len.checked_add(PAGE).and_then(|size| Layout::from_size_align(size, 8).ok());
        let Some(layout) = layout else { panic!("{len} bytes is more memory than there can be") };
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        let skip = start.as_ptr().align_offset(PAGE);
        // SAFETY: `skip` is less than a page, so `len` bytes of the allocation follow `base`.
        let base = unsafe { start.add(skip) };
        Memory { base, len, _allocation: Some(Arc::new(Allocation { start, layout })) }
    }

    /// Refers to memory that the caller keeps valid, such as memory that a C program registers.
    ///
    /// # Safety
    /// The `len` bytes at `base` must be valid for reads and writes until the value and all its clones are dropped. A
    /// NIC's clone counts until `deregister_mem` has returned, because the NIC does not access the memory after that.
    /// Rust code must hold no reference into the memory meanwhile.
    pub unsafe fn from_raw(base: NonNull<u8>, len: usize) -> Memory {
        Memory { base, len, _allocation: None }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the range is empty, which is possible only with [`Memory::from_raw`].
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of byte `at`, as in descriptors.
    #[inline]
    pub fn address(&self, at: usize) -> u64 {
        self.base.as_ptr() as u64 + at as u64
    }

    /// Returns a data segment of `length` bytes from byte `at` on. `handle` must come from a registration of this
    /// memory. The NIC checks the range when it uses the segment.
    pub fn segment(&self, at: usize, length: u32, handle: MemHandle) -> DataSegment {
        DataSegment { address: self.address(at), handle: handle.raw(), length }
    }

    /// Returns a pointer to byte `at`, if `len` bytes from there on are in the range.
    #[inline]
    fn within(&self, at: usize, len: usize) -> Option<NonNull<u8>> {
        if at > self.len || len > self.len - at {
            return None;
        }
        // SAFETY: `at` is at most the range's length, so the result lies in the range or one byte past its end.
        Some(unsafe { self.base.add(at) })
    }

    /// Returns a pointer to `len` bytes at `address`; `None` if they are not all in the range.
    #[inline]
    pub fn range(&self, address: u64, len: u32) -> Option<NonNull<u8>> {
        let at = address.wrapping_sub(self.base.as_ptr() as u64);
        self.within(usize::try_from(at).ok()?, len as usize)
    }

    /// Returns the descriptor at `address`; `None` unless the address is a multiple of 64 and the first 64 bytes are in
    /// the range.
    #[inline]
    pub fn descriptor_at(&self, address: u64) -> Option<DescriptorRef<'_>> {
        let at = address.wrapping_sub(self.base.as_ptr() as u64);
        self.descriptor(usize::try_from(at).ok()?)
    }

    /// Returns the descriptor at byte `at`; `None` unless its address is a multiple of 64 and its first 64 bytes are in
    /// the range.
    #[inline]
    pub fn descriptor(&self, at: usize) -> Option<DescriptorRef<'_>> {
        const CONTROL: usize = size_of::<ControlSegment>();
        let start = self.within(at, ALIGNMENT)?;
        if !(start.as_ptr() as usize).is_multiple_of(ALIGNMENT) {
            return None;
        }
        let room = ((self.len - at - CONTROL) / size_of::<Segment>()).min(SEGMENTS_MAX);
        // SAFETY: the control segment and `room` segments lie in the range, which stays valid while `self` lives. Both
        // types consist of atomics, so any bytes are valid and concurrent access is no data race. The address is a
        // multiple of 64, which aligns both types.
        unsafe {
            let control = start.cast::<ControlSegment>().as_ref();
            let segments = start.add(CONTROL).cast::<Segment>();
            Some(DescriptorRef::new(control, core::slice::from_raw_parts(segments.as_ptr(), room)))
        }
    }

    /// Copies bytes into the range, from byte `at` on. Returns false and copies nothing if they do not fit.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.within(at, bytes.len()) else { return false };
        // SAFETY: the target lies in the range. The source is a live slice, and no slice overlaps a range: `from_raw`'s
        // contract forbids it, and `zeroed` lends no slices.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        true
    }

    /// Copies bytes out of the range, from byte `at` on. Returns false and copies nothing if they are not all in the
    /// range.
    #[inline]
    pub fn read(&self, at: usize, out: &mut [u8]) -> bool {
        let Some(from) = self.within(at, out.len()) else { return false };
        // SAFETY: the source lies in the range. The target is a live slice, and no slice overlaps a range: `from_raw`'s
        // contract forbids it, and `zeroed` lends no slices.
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
