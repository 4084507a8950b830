//! A program's buffer, registered for one send (SOVIA_REG).
//!
//! This and `lent` are the only places with unsafe code.
#![allow(unsafe_code)]

use crate::stack::Shared;
use core::marker::PhantomData;
use core::ptr::NonNull;
use via::error::RegisterError;
use via::{DataSegment, MemAttributes, MemHandle, Memory, Nic};

/// A slice that a NIC may read until this is dropped.
pub(crate) struct Lease<'b, N: Nic + 'static> {
    nic: &'b N,
    memory: Memory,
    handle: MemHandle,
    bytes: PhantomData<&'b [u8]>,
}

impl<'b, N: Nic + 'static> Lease<'b, N> {
    /// Registers a slice of at least one byte.
    pub(crate) fn new(stack: &'b Shared<N>, bytes: &'b [u8]) -> Result<Self, RegisterError> {
        let base = NonNull::from(bytes).cast::<u8>();
        // SAFETY: the bytes stay valid for reads until the lease is dropped, which deregisters them,
        // after which no NIC touches them; the lease does not hand the memory out. Nobody writes
        // to it: the region allows no RDMA, and its handle stands in send descriptors only, which
        // are read from. So the slice may be borrowed meanwhile.
        let memory = unsafe { Memory::from_raw(base, bytes.len()) };
        let attributes = MemAttributes { ptag: Some(stack.ptag), ..MemAttributes::default() };
        let handle = stack.nic.register_mem(&memory, attributes)?;
        Ok(Lease { nic: &stack.nic, memory, handle, bytes: PhantomData })
    }

    /// All of it, for a descriptor.
    pub(crate) fn segment(&self) -> DataSegment {
        self.memory.segment(0, self.memory.len() as u32, self.handle)
    }
}

impl<N: Nic + 'static> Drop for Lease<'_, N> {
    fn drop(&mut self) {
        // It fails for an unknown handle only, and this one is known.
        let _ = self.nic.deregister_mem(self.handle);
    }
}
