//! A program's buffer, registered for one send (SOVIA_REG) or for those that follow (`cache`).
//!
//! This, `buffer`, `received` and `target` are the only places with unsafe code.
#![allow(unsafe_code)]

use crate::cache::Used;
use crate::tag::Tag;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;
use via::error::RegisterError;
use via::{DataSegment, MemAttributes, MemHandle, Memory, Nic};

/// A slice that a NIC may read until this is dropped.
pub(crate) struct Lease<'b, N: Nic + 'static> {
    registered: Registered<'b, N>,
    segment: DataSegment,
    bytes: PhantomData<&'b [u8]>,
}

/// How it is registered.
enum Registered<'b, N: Nic + 'static> {
    /// For this send.
    Once(&'b N, MemHandle),
    /// By the cache, which is told when this is dropped.
    Kept { _used: Used<N> },
}

impl<'b, N: Nic + 'static> Lease<'b, N> {
    /// Registers the first `len` bytes of a slice, at least one; or all of it, where that stays.
    pub(crate) fn new(tag: &'b Tag<N>, whole: &'b [u8], len: usize) -> Result<Self, RegisterError> {
        let part = addresses(&whole[..len]);
        let address = part.start as u64;
        let segment =
            |handle: MemHandle| DataSegment { address, handle: handle.raw(), length: len as u32 };
        let stack = &*tag.stack;
        // What it keeps any stream may find, so it has the tag that they share.
        let cache = if tag.is_own() { None } else { stack.cache.cache(&stack.nic) };
        if let Some(cache) = cache {
            // SAFETY: the range is of whole pages that the slice has a part of each, so they are
            // mapped now. They may be unmapped while they are still registered; but the NIC touches
            // no byte of them that no descriptor names: the region allows no RDMA, and descriptors
            // name what lies in a live slice, only while a lease of it lives. No peer writes.
            let register = |pages: &Range<usize>| unsafe { register(tag, pages) };
            let used = cache.acquire(&part, &addresses(whole), register);
            if let Some(used) = used {
                let segment = segment(used.handle);
                let registered = Registered::Kept { _used: used };
                return Ok(Lease { registered, segment, bytes: PhantomData });
            }
        }
        // SAFETY: the bytes stay valid for reads until the lease is dropped, which deregisters them,
        // after which no NIC touches them; the lease does not hand the memory out. No peer writes
        // to it: the region allows no RDMA, and its handle stands in send descriptors only, which
        // are read from. So the slice may be borrowed meanwhile.
        let handle = unsafe { register(tag, &part) }?;
        let registered = Registered::Once(&*stack.nic, handle);
        Ok(Lease { registered, segment: segment(handle), bytes: PhantomData })
    }

    /// The bytes, for a descriptor.
    pub(crate) fn segment(&self) -> DataSegment {
        self.segment
    }
}

impl<N: Nic + 'static> Drop for Lease<'_, N> {
    fn drop(&mut self) {
        if let Registered::Once(nic, handle) = &self.registered {
            // It fails for an unknown handle only, and this one is known.
            let _ = nic.deregister_mem(*handle);
        }
    }
}

fn addresses(bytes: &[u8]) -> Range<usize> {
    let start = bytes.as_ptr() as usize;
    start..start + bytes.len()
}

/// Registers a range of at least one byte, to be read.
///
/// # Safety
/// As for [`Memory::from_raw`], as far as descriptors name the bytes.
unsafe fn register<N: Nic + 'static>(
    tag: &Tag<N>,
    range: &Range<usize>,
) -> Result<MemHandle, RegisterError> {
    let base = core::ptr::with_exposed_provenance_mut(range.start);
    let base = NonNull::new(base).ok_or(RegisterError::Empty)?;
    // SAFETY: the caller's contract.
    let memory = unsafe { Memory::from_raw(base, range.len()) };
    let attributes = MemAttributes { ptag: Some(tag.ptag()), ..MemAttributes::default() };
    tag.stack.nic.register_mem(&memory, attributes)
}
