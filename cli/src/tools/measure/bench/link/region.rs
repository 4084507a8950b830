//! The shared memory of the layer `ring`: a queue of each kind in each direction.

use std::fs::File;
use std::num::NonZeroUsize;

use anyhow::Context;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

use super::bytes::ByteQueue;
use super::slots::SlotQueue;
use crate::measure::bench::task::Role;

/// The memory that both processes map. All zeroes are its initial state.
#[repr(C)]
pub(in crate::measure::bench) struct Region {
    slots: [SlotQueue; 2],
    bytes: [ByteQueue; 2],
}

impl Region {
    /// Makes a file of the right length, which both processes inherit.
    pub(in crate::measure::bench) fn file() -> anyhow::Result<File> {
        let file = File::from(memfd_create(c"sovia-ring", MFdFlags::empty())?);
        file.set_len(size_of::<Self>() as u64)?;
        Ok(file)
    }

    /// Maps the file until this process ends.
    pub(in crate::measure::bench) fn map(file: &File) -> anyhow::Result<&'static Self> {
        let len = NonZeroUsize::new(size_of::<Self>()).context("the ring has a length of 0")?;
        anyhow::ensure!(file.metadata()?.len() >= len.get() as u64, "the ring's file is too short");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the address of the new mapping, so the mapping replaces no other.
        let memory = unsafe { mmap(None, len, access, MapFlags::MAP_SHARED, file, 0)? };
        // SAFETY: the mapping is page-aligned, has at least the region's size, and is never unmapped. The region
        // consists of atomics and cells, for which all byte values are valid.
        Ok(unsafe { &*memory.as_ptr().cast::<Self>() })
    }

    /// Returns the slot queues for sending and for receiving.
    pub(in crate::measure::bench) fn slots(&self, role: Role) -> (&SlotQueue, &SlotQueue) {
        pair(&self.slots, role)
    }

    /// Returns the byte queues for sending and for receiving.
    pub(in crate::measure::bench) fn bytes(&self, role: Role) -> (&ByteQueue, &ByteQueue) {
        pair(&self.bytes, role)
    }
}

fn pair<T>([there, back]: &[T; 2], role: Role) -> (&T, &T) {
    match role {
        Role::Requester => (there, back),
        Role::Responder => (back, there),
    }
}
