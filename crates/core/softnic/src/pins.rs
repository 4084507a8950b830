//! NICs that hold the pages which memory had when it was registered.
//!
//! A NIC with a DMA engine pins pages, and reads them whatever the program has mapped at their addresses
//! since; that is why a registration must not outlive its memory. How pages are held is for the
//! program to say ([`Pinner`]): this crate makes no system calls. Without it, a NIC reads what lies
//! at an address when it sends.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::{MemHandle, Memory};

/// Holds pages.
pub trait Pinner: Send + Sync {
    /// Holds the pages that now lie at an address, if it is of those to be held.
    fn pin(&self, address: u64, len: usize) -> Option<Box<dyn Pinned>>;
}

/// Held pages.
pub trait Pinned: Send + Sync {
    /// Reads from byte `at` of what was pinned on; all of it is within.
    fn read(&self, at: usize, out: &mut [u8]);
}

/// A NIC's pins.
#[derive(Default)]
pub(crate) struct Pins {
    /// There is a pinner.
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

    /// Memory has been registered.
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

    /// It is no longer.
    pub(crate) fn deregistered(&self, handle: MemHandle) {
        if self.is_on() {
            let pinned = self.inner().held.remove(&handle.raw());
            drop(pinned);
        }
    }

    /// Reads from the pages of a region; false where it reads what lies at its addresses.
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
