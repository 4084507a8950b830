//! Buffers for frames.

use core::ops::Deref;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Arc;

const PAGE: usize = 4096;

/// Buffers of one length, in one piece of memory.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<u8>,
    layout: Layout,
    /// Bytes of each.
    pub(crate) each: usize,
}

// SAFETY: it is memory, and each buffer is used by what has its number alone.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) fn new(count: usize, each: usize) -> Arena {
        let bytes = count.checked_mul(each).map(|bytes| bytes.max(1));
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, PAGE).ok());
        let Some(layout) = layout else { panic!("{count} buffers of {each} bytes are too many") };
        // SAFETY: the layout has bytes.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Arena { start, layout, each }
    }

    pub(crate) fn count(&self) -> usize {
        self.layout.size() / self.each
    }

    /// All of it.
    pub(crate) fn range(&self) -> (*mut u8, usize) {
        (self.start.as_ptr(), self.layout.size())
    }

    /// Where a buffer begins.
    pub(crate) fn buffer(&self, number: usize) -> *mut u8 {
        assert!(number < self.count(), "no such buffer");
        // SAFETY: it is within.
        unsafe { self.start.as_ptr().add(number * self.each) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// A frame that has come, in the endpoint's memory, until it is given back.
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
        // SAFETY: the buffer is not posted while it is lent, and this is the only one that has its number.
        unsafe { core::slice::from_raw_parts(self.arena.buffer(self.number), len) }
    }
}
