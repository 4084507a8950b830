//! Registered memory: descriptors, and a buffer for each.

use std::sync::Arc;
use via::descriptor::ALIGNMENT;
use via::error::RegisterError;
use via::{DescriptorAddress, MemAttributes, MemHandle, Memory, Nic};

/// Descriptors with buffers of one size; deregistered with it.
pub(super) struct Region<N: Nic> {
    nic: Arc<N>,
    memory: Memory,
    handle: MemHandle,
    slots: usize,
    size: usize,
}

impl<N: Nic> Region<N> {
    /// `slots` descriptors with buffers of `size` bytes.
    pub(super) fn new(nic: &Arc<N>, slots: usize, size: usize) -> Result<Region<N>, RegisterError> {
        let size = size.next_multiple_of(ALIGNMENT);
        let memory = Memory::zeroed(slots * (ALIGNMENT + size));
        let handle = nic.register_mem(&memory, MemAttributes::default())?;
        Ok(Region { nic: nic.clone(), memory, handle, slots, size })
    }

    fn buffer(&self, slot: usize) -> usize {
        self.slots * ALIGNMENT + slot * self.size
    }

    /// Fills in the descriptor of a slot, for the first `len` bytes of its buffer; to be posted.
    pub(super) fn prepare(&self, slot: usize, len: usize, count: Option<u32>) -> DescriptorAddress {
        let at = slot * ALIGNMENT;
        let data = self.memory.segment(self.buffer(slot), len as u32, self.handle);
        let data = if len > 0 { core::slice::from_ref(&data) } else { &[] };
        let descriptor = self.memory.descriptor(at);
        let prepared = descriptor.is_some_and(|it| it.prepare(data, count).is_ok());
        debug_assert!(prepared, "the slot is there and has room for one segment");
        DescriptorAddress { address: self.memory.address(at), handle: self.handle }
    }

    /// Copies bytes into the buffer of a slot.
    pub(super) fn write(&self, slot: usize, bytes: &[u8]) {
        let written = self.memory.write(self.buffer(slot), bytes);
        debug_assert!(written, "a packet fits its buffer");
    }

    /// Copies bytes out of the buffer of a slot.
    pub(super) fn read(&self, slot: usize, out: &mut [u8]) {
        let read = self.memory.read(self.buffer(slot), out);
        debug_assert!(read, "a packet lies in its buffer");
    }
}

impl<N: Nic> Drop for Region<N> {
    fn drop(&mut self) {
        // It has been registered, and nothing else deregisters it.
        let _ = self.nic.deregister_mem(self.handle);
    }
}
