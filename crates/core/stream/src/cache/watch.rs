//! Notices that registered memory goes away, by one userfaultfd and one thread for the process,
//! since memory can be watched by one userfaultfd only, and caches may have the same.
//!
//! **What a sender may rely on.** Before it looks a range up it asks [`Watcher::is_settled`]. If so,
//! everything that had happened to watched memory before has been read as events, and has been
//! applied to all caches. A call that unmaps memory waits until its event is *read*, not until it is
//! applied, and tells after the memory is gone; so this cannot be left to the order of events.
//!
//! **Why the thread cannot wait for itself.** A thread that unmaps watched memory waits for this one, and
//! freeing memory may unmap some, as may allocating. So the thread neither allocates nor frees: its
//! lists have their memory from the beginning, ranges are only marked ([`Ranges::invalidate`]), and
//! what is registered is undone later, by a thread that sends. And it takes no lock whose holder may
//! unmap: under the gate's and under a cache's ranges nothing is allocated, freed or asked
//! of a NIC. All that is in this module and in [`super::ranges`].
//!
//! **What a program sees of it.** Mappings are watched whole: the kernel cuts them in two where only a
//! part is watched, and refuses to move (`mremap`) what is cut. They stay watched until they are unmapped.
//! A thread that takes some of such a mapping away waits for this thread to be
//! scheduled: some 10 µs.

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

/// The ranges of a cache, as it shares them with the thread.
pub(crate) type Shared = Mutex<Ranges<MemHandle>>;

/// Caches that a process may have at a time.
const CACHES_MAX: usize = 256;

/// The process's one, once a cache has wanted it.
static WATCHER: OnceLock<Result<&'static Watcher, Errno>> = OnceLock::new();

/// The userfaultfd, and what the thread knows.
#[derive(Debug)]
pub(crate) struct Watcher {
    userfault: Userfault,
    maps: Maps,
    /// A forked child has this structure, but neither the thread nor the memory.
    process: i32,
    gate: Mutex<Gate>,
    /// Batches of events that have begun to be read, and those that have been applied.
    begun: AtomicU64,
    applied: AtomicU64,
}

#[derive(Debug)]
struct Gate {
    caches: Vec<Arc<Shared>>,
    distrust: Distrust,
}

impl Watcher {
    /// The process's watcher, which is started if need be.
    ///
    /// # Errors
    /// Why memory cannot be watched here: `EPERM`, `ENOSYS` where the kernel forbids it, `EINVAL`
    /// where it is too old, `EAGAIN` without a thread.
    pub(crate) fn get() -> Result<&'static Watcher, Errno> {
        let watcher = *WATCHER.get_or_init(Watcher::start);
        watcher.and_then(|w| if w.process == call::getpid() { Ok(w) } else { Err(Errno::ECHILD) })
    }

    fn start() -> Result<&'static Watcher, Errno> {
        // It lasts as long as the process, as the thread does.
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
        // Nothing panics under it half-way.
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
                // The program has closed our descriptor behind our back: nothing is quiet from here
                // on, so nothing is found in a cache any more.
                return;
            }
        }
    }

    /// Has a cache notified from now on; false where there are too many.
    pub(crate) fn join(&self, cache: &Arc<Shared>) -> bool {
        let cache = cache.clone();
        let mut gate = self.gate();
        let room = gate.caches.len() < CACHES_MAX;
        if room {
            gate.caches.push(cache);
        }
        room
    }

    /// Has it notified no more.
    pub(crate) fn leave(&self, cache: &Arc<Shared>) {
        let mut gate = self.gate();
        let place = gate.caches.iter().position(|other| Arc::ptr_eq(other, cache));
        let left = place.map(|place| gate.caches.swap_remove(place));
        drop(gate);
        drop(left);
    }

    /// Whether all that had happened to watched memory before this call is known to all caches; if not,
    /// some is being taken away just now. One system call (0.1 to 0.5 µs).
    pub(crate) fn is_settled(&self) -> bool {
        let quiet = self.userfault.is_quiet();
        self.settle();
        quiet
    }

    /// Waits until all events that have been read are known to all caches.
    pub(crate) fn settle(&self) {
        // An event is of a batch that had begun before it was read.
        let begun = self.begun.load(SeqCst);
        if self.applied.load(SeqCst) != begun {
            // The thread gives the gate back when it has applied it.
            drop(self.gate());
        }
    }

    /// Watches whole pages, of which a live slice has a part of each; whether they may be cached. To
    /// be asked once the cache has an entry for them, which then learns what happens to them.
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
                // Before the caches know: a thread that looks in between has an entry that they then lose.
                self.distrust.add(range.clone());
                range
            }
        };
        for cache in &self.caches {
            cache.lock().unwrap_or_else(PoisonError::into_inner).invalidate(range);
        }
    }
}
