//! The shared memory of the layer `ring`: a queue each way, of both kinds.

use std::fs::File;
use std::num::NonZeroUsize;

use anyhow::Context;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

use super::bytes::ByteQueue;
use super::slots::SlotQueue;
use crate::measure::bench::task::Role;

/// What both processes map. All zero is its state before the first message.
#[repr(C)]
pub(in crate::measure::bench) struct Region {
    slots: [SlotQueue; 2],
    bytes: [ByteQueue; 2],
}

impl Region {
    /// A file of the right length, for both processes to inherit.
    pub(in crate::measure::bench) fn file() -> anyhow::Result<File> {
        let file = File::from(memfd_create(c"sovia-ring", MFdFlags::empty())?);
        file.set_len(size_of::<Self>() as u64)?;
        Ok(file)
    }

    /// Maps the file, for the rest of this process's life.
    pub(in crate::measure::bench) fn map(file: &File) -> anyhow::Result<&'static Self> {
        let len = NonZeroUsize::new(size_of::<Self>()).context("the ring has a length of 0")?;
        anyhow::ensure!(file.metadata()?.len() >= len.get() as u64, "the ring's file is too short");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice replaces nothing.
        let memory = unsafe { mmap(None, len, access, MapFlags::MAP_SHARED, file, 0)? };
        // SAFETY: a mapping begins at a page, it is as long as the region, it is never undone,
        // and the region is made of atomics and cells, for which all bytes are values.
        Ok(unsafe { &*memory.as_ptr().cast::<Self>() })
    }

    /// The queues of slots to send to and to receive from.
    pub(in crate::measure::bench) fn slots(&self, role: Role) -> (&SlotQueue, &SlotQueue) {
        pair(&self.slots, role)
    }

    /// The queues of bytes to send to and to receive from.
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
