//! Bytes in a mapping of their own.

use super::Mapping;
use crate::call::Result;
use core::ops::{Deref, DerefMut};

/// Zeroed bytes outside the heap and the stack. Needed where a program may have stopped a thread inside its allocator, or
/// may have a small stack.
#[derive(Debug)]
pub struct Room(Mapping);

impl Room {
    /// Maps `len` bytes.
    ///
    /// # Errors
    /// Those of `mmap`.
    pub fn new(len: usize) -> Result<Room> {
        Mapping::private(len).map(Room)
    }
}

impl Deref for Room {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is private, readable and as long as this, and only this object accesses it.
        unsafe { core::slice::from_raw_parts(self.0.base(), self.0.len) }
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is private, writable and as long as this, and only this object accesses it.
        unsafe { core::slice::from_raw_parts_mut(self.0.base(), self.0.len) }
    }
}
