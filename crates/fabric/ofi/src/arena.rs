//! Buffers for frames.

use core::ops::Deref;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Arc;

const PAGE: usize = 4096;

/// Buffers of one size in one allocation.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<u8>,
    layout: Layout,
    /// Size of each buffer in bytes.
    pub(crate) each: usize,
}

// SAFETY: the arena only owns memory. Each buffer is used only by the holder of its number.
unsafe impl Send for Arena {}
// SAFETY: the arena only owns memory. Each buffer is used only by the holder of its number.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) fn new(count: usize, each: usize) -> Arena {
        let bytes = count.checked_mul(each).map(|bytes| bytes.max(1));
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, PAGE).ok());
        let Some(layout) = layout else { panic!("{count} buffers of {each} bytes are too many") };
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Arena { start, layout, each }
    }

    pub(crate) fn count(&self) -> usize {
        self.layout.size() / self.each
    }

    /// Returns the address and length of the whole allocation.
    pub(crate) fn range(&self) -> (*mut u8, usize) {
        (self.start.as_ptr(), self.layout.size())
    }

    /// Returns the address of a buffer.
    pub(crate) fn buffer(&self, number: usize) -> *mut u8 {
        assert!(number < self.count(), "no such buffer");
        // SAFETY: the assertion above keeps the offset inside the allocation.
        unsafe { self.start.as_ptr().add(number * self.each) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and is not used after the drop.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// A received frame in the endpoint's memory, until [`Endpoint::give_back`](crate::Endpoint::give_back).
#[derive(Debug)]
pub struct Lent {
    pub(crate) arena: Arc<Arena>,
    pub(crate) number: usize,
    pub(crate) len: usize,
}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let len = self.len.min(self.arena.each);
        // SAFETY: the buffer has no posted receive while it is lent, and no other `Lent` has its number.
        unsafe { core::slice::from_raw_parts(self.arena.buffer(self.number), len) }
    }
}
