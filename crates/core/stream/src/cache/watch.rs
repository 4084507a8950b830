//! Detects when registered memory is taken away, with one userfaultfd and one thread for the process. There is only one
//! because the kernel lets only one userfaultfd watch a mapping, and several caches may contain the same memory.
//!
//! **What a sender may rely on.** A sender calls [`Watcher::is_settled`] before it looks up a range. If the result is
//! true, all earlier events of watched memory have been read and applied to all caches. The order of events alone would
//! not ensure this. A call that unmaps memory waits only until its event is *read*, not until it is applied. The kernel
//! reports the event after the memory is gone.
//!
//! **Why the watcher's thread never allocates.** A thread that unmaps watched memory waits for the watcher's thread.
//! Freeing or allocating memory may unmap some. So the watcher's thread does neither. The lists get their memory at the
//! start. The thread only marks ranges ([`Ranges::invalidate`]), and a sending thread deregisters them later. The
//! watcher's thread takes no lock whose holder may unmap memory. Code that holds the gate's lock or the lock of a
//! cache's ranges allocates nothing, frees nothing and does not call a NIC. All this code is in this module and in
//! [`super::ranges`].
//!
//! **Effects on the program.** The watcher watches whole mappings. The kernel splits a mapping that is watched in part,
//! and refuses to move (`mremap`) a split mapping. Mappings stay watched until they are unmapped. A thread that takes
//! part of such a mapping away waits until the watcher's thread runs: about 10 µs.

use super::distrust::Distrust;
use super::ranges::Ranges;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use sovia_sys::maps::Maps;
use sovia_sys::userfault::{Event, Userfault};
use sovia_sys::{Errno, call, process};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use via::MemHandle;

/// The ranges of a cache, shared with the watcher's thread.
pub(crate) type Shared = Mutex<Ranges<MemHandle>>;

/// Largest number of caches in a process.
const CACHES_MAX: usize = 256;

/// The process's watcher, once a cache has needed it.
static WATCHER: OnceLock<Result<&'static Watcher, Errno>> = OnceLock::new();

/// The userfaultfd, and the state of the watcher's thread.
#[derive(Debug)]
pub(crate) struct Watcher {
    userfault: Userfault,
    maps: Maps,
    /// Process that created the watcher. A forked child has a copy of this structure, but neither the thread nor the
    /// watched memory.
    process: i32,
    gate: Mutex<Gate>,
    /// Number of batches of events whose reading has begun, and number of applied batches.
    begun: AtomicU64,
    applied: AtomicU64,
}

#[derive(Debug)]
struct Gate {
    caches: Vec<Arc<Shared>>,
    distrust: Distrust,
}

impl Watcher {
    /// Returns the process's watcher, and starts it if needed.
    ///
    /// # Errors
    /// The reason for which memory cannot be watched. `EPERM` or `ENOSYS`: the kernel forbids it. `EINVAL`: the kernel
    /// is too old. `EAGAIN`: the thread cannot be started. `ECHILD`: this process is a forked child.
    pub(crate) fn get() -> Result<&'static Watcher, Errno> {
        let watcher = *WATCHER.get_or_init(Watcher::start);
        watcher.and_then(|w| if w.process == call::getpid() { Ok(w) } else { Err(Errno::ECHILD) })
    }

    fn start() -> Result<&'static Watcher, Errno> {
        // The watcher lives as long as the process, because its thread does.
        let watcher: &'static Watcher = Box::leak(Box::new(Watcher::new()?));
        let thread = thread::Builder::new().name("sovia-watch".into());
        let thread = process::without_signals(|| thread.spawn(move || watcher.run()));
        thread.map(|_| watcher).map_err(|_| Errno::EAGAIN)
    }

    fn new() -> Result<Watcher, Errno> {
        let caches = Vec::with_capacity(CACHES_MAX);
        Ok(Watcher {
            userfault: Userfault::new()?,
            maps: Maps::open()?,
            process: call::getpid(),
            gate: Mutex::new(Gate { caches, distrust: Distrust::default() }),
            begun: AtomicU64::new(0),
            applied: AtomicU64::new(0),
        })
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        // Ignore poisoning: no code panics in the middle of a change.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            self.userfault.wait();
            let mut gate = self.gate();
            self.begun.fetch_add(1, SeqCst);
            let stopped = loop {
                match self.userfault.read() {
                    Ok(Some(event)) => gate.apply(&event),
                    Ok(None) => {}
                    Err(error) => break error,
                }
            };
            self.applied.fetch_add(1, SeqCst);
            if !matches!(stopped, Errno::EAGAIN | Errno::EINTR) {
                // The program has closed this descriptor. From now on `is_quiet` returns false, so no cache entry is
                // found any more.
                return;
            }
        }
    }

    /// Notifies a cache from now on. Returns false if there are too many caches.
    pub(crate) fn join(&self, cache: &Arc<Shared>) -> bool {
        let cache = cache.clone();
        let mut gate = self.gate();
        let room = gate.caches.len() < CACHES_MAX;
        if room {
            gate.caches.push(cache);
        }
        room
    }

    /// Stops notifying a cache.
    pub(crate) fn leave(&self, cache: &Arc<Shared>) {
        let mut gate = self.gate();
        let place = gate.caches.iter().position(|other| Arc::ptr_eq(other, cache));
        let left = place.map(|place| gate.caches.swap_remove(place));
        drop(gate);
        drop(left);
    }

    /// Returns true if all caches know all changes of watched memory before this call. Returns false if a thread is
    /// taking watched memory away now. Costs one system call (0.1 to 0.5 µs).
    pub(crate) fn is_settled(&self) -> bool {
        let quiet = self.userfault.is_quiet();
        self.settle();
        quiet
    }

    /// Waits until all events that have been read are applied to all caches.
    pub(crate) fn settle(&self) {
        // The thread counts a batch in `begun` before it reads the batch's events.
        let begun = self.begun.load(SeqCst);
        if self.applied.load(SeqCst) != begun {
            // The thread releases the gate after it has applied the batch.
            drop(self.gate());
        }
    }

    /// Watches whole pages, each of which contains part of a live slice. Returns false if they must not be cached. Call
    /// it after the cache has an entry for the pages, so that the entry is invalidated by later changes.
    pub(crate) fn watch(&self, pages: &Range<usize>) -> bool {
        if self.gate().distrust.meets(pages) {
            return false;
        }
        let around = self.maps.private_around(pages);
        around.is_some_and(|around| self.userfault.watch(&around).is_ok())
    }
}

impl Gate {
    fn apply(&mut self, event: &Event) {
        let range = match event {
            Event::Unmapped(range) | Event::Moved(range) => {
                self.distrust.remove(range);
                range
            }
            Event::Emptied(range) => {
                // Record the range before the caches lose it. A thread that adds an entry in between loses the entry by
                // the loop below.
                self.distrust.add(range.clone());
                range
            }
        };
        for cache in &self.caches {
            cache.lock().unwrap_or_else(PoisonError::into_inner).invalidate(range);
        }
    }
}
