//! Registered memory for a work queue: descriptors, and a buffer for each.

use crate::attributes::MemAttributes;
use crate::descriptor::{ALIGNMENT, DescriptorAddress};
use crate::error::RegisterError;
use crate::memory::Memory;
use crate::nic::Nic;
use crate::tag::MemHandle;
use std::sync::Arc;

/// Descriptors with buffers of one size, in memory that stays registered while this value lives.
///
/// A program that copies its messages needs no other registered memory. To send, it writes a message to a slot's buffer
/// and posts the result of [`Slots::prepare`]. To receive, it posts that result to a receive queue, and reads the
/// buffer when the descriptor is done.
#[derive(Debug)]
pub struct Slots<N: Nic> {
    nic: Arc<N>,
    memory: Memory,
    handle: MemHandle,
    slots: usize,
    size: usize,
}

impl<N: Nic> Slots<N> {
    /// Registers memory for `slots` descriptors with buffers of `size` bytes.
    ///
    /// # Errors
    /// [`RegisterError`] if the NIC cannot register the memory.
    pub fn new(nic: &Arc<N>, slots: usize, size: usize) -> Result<Slots<N>, RegisterError> {
        let size = size.next_multiple_of(ALIGNMENT);
        let memory = Memory::zeroed(slots * (ALIGNMENT + size));
        let handle = nic.register_mem(&memory, MemAttributes::default())?;
        Ok(Slots { nic: nic.clone(), memory, handle, slots, size })
    }

    fn buffer(&self, slot: usize) -> usize {
        self.slots * ALIGNMENT + slot * self.size
    }

    /// Fills in the descriptor of a slot for the first `len` bytes of its buffer, with `immediate`. The caller posts
    /// the result.
    pub fn prepare(&self, slot: usize, len: usize, immediate: Option<u32>) -> DescriptorAddress {
        debug_assert!(slot < self.slots && len <= self.size);
        let at = slot * ALIGNMENT;
        let data = self.memory.segment(self.buffer(slot), len as u32, self.handle);
        let data = if len > 0 { core::slice::from_ref(&data) } else { &[] };
        let descriptor = self.memory.descriptor(at);
        let prepared = descriptor.is_some_and(|it| it.prepare(data, immediate).is_ok());
        debug_assert!(prepared, "the slot is there and has room for one segment");
        DescriptorAddress { address: self.memory.address(at), handle: self.handle }
    }

    /// Returns the slot of a descriptor, if the descriptor belongs to these slots.
    pub fn slot_of(&self, descriptor: DescriptorAddress) -> Option<usize> {
        let offset = descriptor.address.wrapping_sub(self.memory.address(0));
        let slot = usize::try_from(offset / ALIGNMENT as u64).ok()?;
        (descriptor.handle == self.handle && slot < self.slots).then_some(slot)
    }

    /// Copies bytes into the buffer of a slot.
    pub fn write(&self, slot: usize, bytes: &[u8]) {
        let written = self.memory.write(self.buffer(slot), bytes);
        debug_assert!(written, "a message fits its buffer");
    }

    /// Copies bytes out of the buffer of a slot.
    pub fn read(&self, slot: usize, out: &mut [u8]) {
        let read = self.memory.read(self.buffer(slot), out);
        debug_assert!(read, "a message lies in its buffer");
    }
}

impl<N: Nic> Drop for Slots<N> {
    fn drop(&mut self) {
        // The call cannot fail: the region is registered, and no other code deregisters it.
        let _ = self.nic.deregister_mem(self.handle);
    }
}
