//! Destinations of a peer's RDMA writes (SOVIA_RDMA): the buffer of a reading program, or a buffer of the stream.
//!
//! Only this module, `buffer`, `received` and `register` have unsafe code.
#![allow(unsafe_code)]

use crate::memory::Registered;
use crate::tag::Tag;
use core::marker::PhantomData;
use core::ptr::NonNull;
use sovia_proto::session::Target;
use via::error::RegisterError;
use via::{MemAttributes, MemHandle, Memory, Nic};

/// Returns attributes that let the stream's peer write, and no other stream's peer, because the tag is the stream's
/// own.
fn open<N: Nic + 'static>(tag: &Tag<N>) -> MemAttributes {
    debug_assert!(tag.is_own());
    MemAttributes { ptag: Some(tag.ptag()), enable_rdma_write: true, enable_rdma_read: false }
}

/// The buffer of a read. The peer may write to it until the value is dropped.
pub(crate) struct Lent<'b, N: Nic + 'static> {
    nic: &'b N,
    handle: MemHandle,
    address: u64,
    len: u32,
    buffer: PhantomData<&'b mut [u8]>,
}

impl<'b, N: Nic + 'static> Lent<'b, N> {
    /// Registers a buffer of at least one byte.
    pub(crate) fn new(tag: &'b Tag<N>, out: &'b mut [u8]) -> Result<Self, RegisterError> {
        let len = u32::try_from(out.len()).unwrap_or(u32::MAX);
        let base = NonNull::from(&mut *out).cast::<u8>();
        // SAFETY: `out` is mutably borrowed until the value is dropped. So the bytes stay valid for reads and writes,
        // and no other code of this process uses them. Dropping it deregisters them, and then no NIC accesses them. The
        // value does not hand the memory out.
        let memory = unsafe { Memory::from_raw(base, len as usize) };
        let handle = tag.stack.nic.register_mem(&memory, open(tag))?;
        let address = memory.address(0);
        Ok(Lent { nic: &*tag.stack.nic, handle, address, len, buffer: PhantomData })
    }

    pub(crate) fn target(&self) -> Target {
        Target { address: self.address, handle: self.handle.raw() }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

impl<N: Nic + 'static> Drop for Lent<'_, N> {
    fn drop(&mut self) {
        // The call cannot fail, because the handle is known.
        let _ = self.nic.deregister_mem(self.handle);
    }
}

/// A buffer of the stream, with the size of a chunk.
#[derive(Debug)]
pub(crate) struct Landing<N: Nic + 'static>(Registered<N>);

impl<N: Nic + 'static> Landing<N> {
    pub(crate) fn new(tag: &Tag<N>, chunk: u32) -> Result<Self, RegisterError> {
        let memory = Memory::zeroed(chunk as usize);
        Ok(Landing(Registered::with(&tag.stack.nic, memory, open(tag))?))
    }

    pub(crate) fn target(&self) -> Target {
        Target { address: self.0.memory.address(0), handle: self.0.handle.raw() }
    }

    /// Copies bytes out of the buffer, from byte `at` on.
    pub(crate) fn copy_out(&self, at: usize, out: &mut [u8]) {
        let within = self.0.memory.read(at, out);
        debug_assert!(within);
    }
}
