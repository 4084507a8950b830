//! Locked pages, for simulated NICs with a DMA engine.
//!
//! A NIC with a DMA engine locks pages at registration, and reads them even after the program has mapped other pages at
//! their addresses. So a registration must not outlive its memory. This crate makes no system calls, so the program
//! supplies the code that locks pages ([`Pinner`]). Without a pinner, a NIC reads the bytes at the address when it
//! sends.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::{MemHandle, Memory};

/// Locks pages.
pub trait Pinner: Send + Sync {
    /// Locks the pages at an address. Returns `None` if this memory need not be locked.
    fn pin(&self, address: u64, len: usize) -> Option<Box<dyn Pinned>>;
}

/// Locked pages.
pub trait Pinned: Send + Sync {
    /// Reads from byte `at` of the locked memory on. The range must lie within it.
    fn read(&self, at: usize, out: &mut [u8]);
}

/// The locked pages of a NIC.
#[derive(Default)]
pub(crate) struct Pins {
    /// Set once there is a pinner.
    on: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    pinner: Option<Arc<dyn Pinner>>,
    held: HashMap<u32, Box<dyn Pinned>>,
}

impl fmt::Debug for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pins", self.inner().held.len())
    }
}

impl Pins {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, pinner: Arc<dyn Pinner>) {
        self.inner().pinner = Some(pinner);
        self.on.store(true, Ordering::Release);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Locks the pages of registered memory.
    pub(crate) fn registered(&self, handle: MemHandle, memory: &Memory) {
        if !self.is_on() {
            return;
        }
        let pinner = self.inner().pinner.clone();
        let pinned = pinner.and_then(|pinner| pinner.pin(memory.address(0), memory.len()));
        if let Some(pinned) = pinned {
            self.inner().held.insert(handle.raw(), pinned);
        }
    }

    /// Releases the pages of deregistered memory.
    pub(crate) fn deregistered(&self, handle: MemHandle) {
        if self.is_on() {
            let pinned = self.inner().held.remove(&handle.raw());
            drop(pinned);
        }
    }

    /// Reads from the locked pages of a region. Returns false if the region has none, so that the caller reads at its
    /// addresses.
    pub(crate) fn read(&self, handle: u32, at: usize, out: &mut [u8]) -> bool {
        if !self.is_on() {
            return false;
        }
        let inner = self.inner();
        let Some(pinned) = inner.held.get(&handle) else { return false };
        pinned.read(at, out);
        true
    }
}
