//! The registered memory of one end: descriptors, the buffers behind its receives, those into which
//! outgoing bytes are copied, and the small bodies of control packets.

use crate::error::SetUpError;
use sovia_proto::configuration::Configuration;
use sovia_proto::session::{BODY_MAX, Target};
use std::sync::Arc;
use via::descriptor::{ALIGNMENT, DescriptorRef, RemoteSegment};
use via::error::RegisterError;
use via::{Control, DataSegment, DescriptorAddress, MemAttributes, MemHandle, Memory, Nic, Ptag};

/// Memory, registered for as long as this lives.
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
        // It fails for an unknown handle only, and this one is known.
        let _ = self.nic.deregister_mem(self.handle);
    }
}

/// How much of everything an end has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Receives, each with a buffer of a chunk.
    pub(crate) receives: usize,
    /// Send descriptors.
    pub(crate) sends: usize,
    /// Buffers of a chunk for outgoing bytes.
    pub(crate) buffers: usize,
    pub(crate) chunk: usize,
}

impl Sizes {
    /// What a configuration needs: `w + w/t` receives and a few; as many buffers as packets may be
    /// unacknowledged, and one that is being filled; a send descriptor for each of those and for
    /// the acknowledgements that go meanwhile.
    pub(crate) fn of(configuration: &Configuration) -> Sizes {
        let receives = usize::from(configuration.flow.receives());
        let buffers = usize::from(configuration.flow.window) + 1;
        Sizes { receives, sends: buffers + receives, buffers, chunk: configuration.chunk as usize }
    }
}

/// Where everything lies.
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

    /// The number of the descriptor at an address: receives first, then sends.
    fn index(&self, at: DescriptorAddress) -> usize {
        (at.address.wrapping_sub(self.registered.memory.address(0)) / ALIGNMENT as u64) as usize
    }

    /// Which receive a completion is of.
    pub(crate) fn receive_index(&self, at: DescriptorAddress) -> usize {
        self.index(at).min(self.sizes.receives - 1)
    }

    /// Which send a completion is of.
    pub(crate) fn send_index(&self, at: DescriptorAddress) -> usize {
        self.index(at).saturating_sub(self.sizes.receives).min(self.sizes.sends - 1)
    }

    fn bodies_at(&self) -> usize {
        (self.sizes.receives + self.sizes.sends) * ALIGNMENT
    }

    fn chunks_at(&self) -> usize {
        self.bodies_at() + self.sizes.sends * BODY_MAX
    }

    /// Where the buffer of a receive begins.
    fn receive_at(&self, i: usize) -> usize {
        self.chunks_at() + i * self.sizes.chunk
    }

    /// Where a buffer for outgoing bytes begins.
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
        // It lies within the memory, and a descriptor has room for two segments.
        if let Some(descriptor) = descriptor {
            let _ = descriptor.prepare(data, immediate);
        }
        self.address(at)
    }

    /// A receive, ready to be posted. Its descriptor is the same each time.
    pub(crate) fn receive(&self, i: usize) -> DescriptorAddress {
        self.address(i * ALIGNMENT)
    }

    /// A send of those bytes, ready to be posted.
    pub(crate) fn send(
        &self,
        i: usize,
        data: Option<DataSegment>,
        immediate: u32,
    ) -> DescriptorAddress {
        self.prepared(self.sizes.receives + i, data.as_slice(), Some(immediate))
    }

    /// An RDMA write of those bytes, ready to be posted.
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
            // A descriptor has room for two segments.
            let control = Control::OP_RDMAWRITE;
            let _ = descriptor.prepare_rdma(control, to, data.as_slice(), Some(immediate));
        }
        self.address(at)
    }

    /// The body of a control packet, written to its place.
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

    /// The first `len` bytes of a buffer, for a descriptor.
    pub(crate) fn filled(&self, buffer: usize, len: u32) -> DataSegment {
        let Registered { memory, handle, .. } = &self.registered;
        memory.segment(self.buffer_at(buffer), len, *handle)
    }

    /// Copies out of the buffer of a receive.
    pub(crate) fn copy_out(&self, receive: usize, at: usize, out: &mut [u8]) {
        debug_assert!(at + out.len() <= self.sizes.chunk);
        self.registered.memory.read(self.receive_at(receive) + at, out);
    }

    /// The memory of the first `len` bytes of a received message.
    pub(crate) fn received(&self, receive: usize, len: u32) -> Option<core::ptr::NonNull<u8>> {
        let memory = &self.registered.memory;
        memory.range(memory.address(self.receive_at(receive)), len)
    }
}
