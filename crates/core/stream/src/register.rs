//! Registration of a program's buffer, for one send (SOVIA_REG) or for later sends too (`cache`).
//!
//! Only this module, `buffer`, `received` and `target` have unsafe code.
#![allow(unsafe_code)]

use crate::cache::Used;
use crate::tag::Tag;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;
use via::error::RegisterError;
use via::{DataSegment, MemAttributes, MemHandle, Memory, Nic};

/// A slice that a NIC may read until the lease is dropped.
pub(crate) struct Lease<'b, N: Nic + 'static> {
    registered: Registered<'b, N>,
    segment: DataSegment,
    bytes: PhantomData<&'b [u8]>,
}

/// How the slice is registered.
enum Registered<'b, N: Nic + 'static> {
    /// For this send only.
    Once(&'b N, MemHandle),
    /// By the cache. Dropping the value ends the use.
    Kept { _used: Used<N> },
}

impl<'b, N: Nic + 'static> Lease<'b, N> {
    /// Registers the first `len` bytes of a slice, at least one. With a cache, registers the whole slice if possible.
    pub(crate) fn new(tag: &'b Tag<N>, whole: &'b [u8], len: usize) -> Result<Self, RegisterError> {
        let part = addresses(&whole[..len]);
        let address = part.start as u64;
        let segment =
            |handle: MemHandle| DataSegment { address, handle: handle.raw(), length: len as u32 };
        let stack = &*tag.stack;
        // Any stream of the stack may find a cached registration, so its protection tag is the shared one.
        let cache = if tag.is_own() { None } else { stack.cache.cache(&stack.nic) };
        if let Some(cache) = cache {
            // SAFETY: the range consists of whole pages, each of which contains part of the live slice `whole`, so the
            // pages are mapped now. The program may unmap pages that are still registered. The region stays sound,
            // because the NIC accesses only bytes that descriptors name. Descriptors name only bytes of a live slice,
            // while its lease lives. The region allows no RDMA, so no peer writes to it.
            let register = |pages: &Range<usize>| unsafe { register(tag, pages) };
            let used = cache.acquire(&part, &addresses(whole), register);
            if let Some(used) = used {
                let segment = segment(used.handle);
                let registered = Registered::Kept { _used: used };
                return Ok(Lease { registered, segment, bytes: PhantomData });
            }
        }
        // SAFETY: the bytes stay valid for reads until the lease is dropped. Dropping it deregisters them, and then no
        // NIC accesses them. The lease does not hand the memory out. The region allows no RDMA and only send
        // descriptors contain its handle, so nothing writes to the borrowed slice.
        let handle = unsafe { register(tag, &part) }?;
        let registered = Registered::Once(&*stack.nic, handle);
        Ok(Lease { registered, segment: segment(handle), bytes: PhantomData })
    }

    /// Returns a segment for the bytes.
    pub(crate) fn segment(&self) -> DataSegment {
        self.segment
    }
}

impl<N: Nic + 'static> Drop for Lease<'_, N> {
    fn drop(&mut self) {
        if let Registered::Once(nic, handle) = &self.registered {
            // The call cannot fail, because the handle is known.
            let _ = nic.deregister_mem(*handle);
        }
    }
}

fn addresses(bytes: &[u8]) -> Range<usize> {
    let start = bytes.as_ptr() as usize;
    start..start + bytes.len()
}

/// Registers a range of at least one byte for reading.
///
/// # Safety
/// The bytes that descriptors name must meet the contract of [`Memory::from_raw`].
unsafe fn register<N: Nic + 'static>(
    tag: &Tag<N>,
    range: &Range<usize>,
) -> Result<MemHandle, RegisterError> {
    let base = core::ptr::with_exposed_provenance_mut(range.start);
    let base = NonNull::new(base).ok_or(RegisterError::Empty)?;
    // SAFETY: this function's caller guarantees the contract of [`Memory::from_raw`].
    let memory = unsafe { Memory::from_raw(base, range.len()) };
    let attributes = MemAttributes { ptag: Some(tag.ptag()), ..MemAttributes::default() };
    tag.stack.nic.register_mem(&memory, attributes)
}
