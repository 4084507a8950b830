//! The registered memory of one end: descriptors, buffers of receives, buffers for copies of outgoing bytes, and bodies
//! of control packets.

use crate::error::SetUpError;
use sovia_proto::configuration::Configuration;
use sovia_proto::session::{BODY_MAX, Target};
use std::sync::Arc;
use via::descriptor::{ALIGNMENT, DescriptorRef, RemoteSegment};
use via::error::RegisterError;
use via::{Control, DataSegment, DescriptorAddress, MemAttributes, MemHandle, Memory, Nic, Ptag};

/// Memory that stays registered while this value lives.
#[derive(Debug)]
pub(crate) struct Registered<N: Nic + 'static> {
    nic: Arc<N>,
    pub(crate) memory: Memory,
    pub(crate) handle: MemHandle,
}

impl<N: Nic + 'static> Registered<N> {
    pub(crate) fn new(nic: &Arc<N>, memory: Memory, ptag: Ptag) -> Result<Self, SetUpError> {
        let attributes = MemAttributes { ptag: Some(ptag), ..MemAttributes::default() };
        Ok(Registered::with(nic, memory, attributes)?)
    }

    pub(crate) fn with(
        nic: &Arc<N>,
        memory: Memory,
        attributes: MemAttributes,
    ) -> Result<Self, RegisterError> {
        let handle = nic.register_mem(&memory, attributes)?;
        Ok(Registered { nic: nic.clone(), memory, handle })
    }
}

impl<N: Nic + 'static> Drop for Registered<N> {
    fn drop(&mut self) {
        // The call cannot fail, because the handle is known.
        let _ = self.nic.deregister_mem(self.handle);
    }
}

/// Numbers of descriptors and buffers of an end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Number of receives. Each has a buffer of one chunk.
    pub(crate) receives: usize,
    /// Number of send descriptors.
    pub(crate) sends: usize,
    /// Number of buffers of one chunk for outgoing bytes.
    pub(crate) buffers: usize,
    pub(crate) chunk: usize,
}

impl Sizes {
    /// Returns the sizes for a configuration. An end has `w + w/t` receives and a few more. There is a buffer for each
    /// packet that may be unacknowledged, and one for combining. There is a send descriptor for each buffer, and for
    /// each acknowledgement sent meanwhile.
    pub(crate) fn of(configuration: &Configuration) -> Sizes {
        let receives = usize::from(configuration.flow.receives());
        let buffers = usize::from(configuration.flow.window) + 1;
        Sizes { receives, sends: buffers + receives, buffers, chunk: configuration.chunk as usize }
    }
}

/// The registered memory, and the positions of its parts.
#[derive(Debug)]
pub(crate) struct Slots<N: Nic + 'static> {
    registered: Registered<N>,
    pub(crate) sizes: Sizes,
}

impl<N: Nic + 'static> Slots<N> {
    pub(crate) fn new(nic: &Arc<N>, sizes: Sizes, ptag: Ptag) -> Result<Slots<N>, SetUpError> {
        let most = nic.attributes().max_descriptors_per_queue as usize;
        if sizes.receives.max(sizes.sends) > most {
            return Err(SetUpError::TooSmall("descriptors in a work queue"));
        }
        let Sizes { receives, sends, buffers, chunk } = sizes;
        let descriptors = (receives + sends) * ALIGNMENT;
        let len = descriptors + sends * BODY_MAX + (receives + buffers) * chunk;
        let registered = Registered::new(nic, Memory::zeroed(len), ptag)?;
        let slots = Slots { registered, sizes };
        for i in 0..receives {
            let Registered { memory, handle, .. } = &slots.registered;
            let data = memory.segment(slots.receive_at(i), chunk as u32, *handle);
            slots.prepared(i, &[data], None);
        }
        Ok(slots)
    }

    fn address(&self, at: usize) -> DescriptorAddress {
        let Registered { memory, handle, .. } = &self.registered;
        DescriptorAddress { address: memory.address(at), handle: *handle }
    }

    /// Returns the index of the descriptor at an address. Receives come first, then sends.
    fn index(&self, at: DescriptorAddress) -> usize {
        (at.address.wrapping_sub(self.registered.memory.address(0)) / ALIGNMENT as u64) as usize
    }

    /// Returns the index of the receive at a descriptor's address.
    pub(crate) fn receive_index(&self, at: DescriptorAddress) -> usize {
        self.index(at).min(self.sizes.receives - 1)
    }

    /// Returns the index of the send at a descriptor's address.
    pub(crate) fn send_index(&self, at: DescriptorAddress) -> usize {
        self.index(at).saturating_sub(self.sizes.receives).min(self.sizes.sends - 1)
    }

    fn bodies_at(&self) -> usize {
        (self.sizes.receives + self.sizes.sends) * ALIGNMENT
    }

    fn chunks_at(&self) -> usize {
        self.bodies_at() + self.sizes.sends * BODY_MAX
    }

    /// Returns the position of the buffer of receive `i`.
    fn receive_at(&self, i: usize) -> usize {
        self.chunks_at() + i * self.sizes.chunk
    }

    /// Returns the position of buffer `i` for outgoing bytes.
    fn buffer_at(&self, i: usize) -> usize {
        self.chunks_at() + (self.sizes.receives + i) * self.sizes.chunk
    }

    fn prepared(
        &self,
        index: usize,
        data: &[DataSegment],
        immediate: Option<u32>,
    ) -> DescriptorAddress {
        let at = index * ALIGNMENT;
        let descriptor: Option<DescriptorRef<'_>> = self.registered.memory.descriptor(at);
        // The descriptor lies within the memory and has room for two segments, so both calls succeed.
        if let Some(descriptor) = descriptor {
            let _ = descriptor.prepare(data, immediate);
        }
        self.address(at)
    }

    /// Returns receive `i`, ready to be posted. The descriptor never changes.
    pub(crate) fn receive(&self, i: usize) -> DescriptorAddress {
        self.address(i * ALIGNMENT)
    }

    /// Returns a send of `data`, ready to be posted.
    pub(crate) fn send(
        &self,
        i: usize,
        data: Option<DataSegment>,
        immediate: u32,
    ) -> DescriptorAddress {
        self.prepared(self.sizes.receives + i, data.as_slice(), Some(immediate))
    }

    /// Returns an RDMA write of `data`, ready to be posted.
    pub(crate) fn write(
        &self,
        i: usize,
        to: Target,
        data: Option<DataSegment>,
        immediate: u32,
    ) -> DescriptorAddress {
        let at = (self.sizes.receives + i) * ALIGNMENT;
        let to = RemoteSegment { address: to.address, handle: to.handle };
        if let Some(descriptor) = self.registered.memory.descriptor(at) {
            // The call cannot fail, because a descriptor has room for two segments.
            let control = Control::OP_RDMAWRITE;
            let _ = descriptor.prepare_rdma(control, to, data.as_slice(), Some(immediate));
        }
        self.address(at)
    }

    /// Writes the body of a control packet to its place, and returns a segment for it.
    pub(crate) fn body(&self, send: usize, bytes: &[u8]) -> DataSegment {
        let at = self.bodies_at() + send * BODY_MAX;
        self.registered.memory.write(at, bytes);
        self.registered.memory.segment(at, bytes.len() as u32, self.registered.handle)
    }

    /// Copies bytes into a buffer.
    pub(crate) fn fill(&self, buffer: usize, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.sizes.chunk);
        self.registered.memory.write(self.buffer_at(buffer) + at, bytes);
    }

    /// Returns a segment for the first `len` bytes of a buffer.
    pub(crate) fn filled(&self, buffer: usize, len: u32) -> DataSegment {
        let Registered { memory, handle, .. } = &self.registered;
        memory.segment(self.buffer_at(buffer), len, *handle)
    }

    /// Copies bytes out of the buffer of a receive.
    pub(crate) fn copy_out(&self, receive: usize, at: usize, out: &mut [u8]) {
        debug_assert!(at + out.len() <= self.sizes.chunk);
        self.registered.memory.read(self.receive_at(receive) + at, out);
    }

    /// Returns a pointer to the first `len` bytes of a received message.
    pub(crate) fn received(&self, receive: usize, len: u32) -> Option<core::ptr::NonNull<u8>> {
        let memory = &self.registered.memory;
        memory.range(memory.address(self.receive_at(receive)), len)
    }
}
