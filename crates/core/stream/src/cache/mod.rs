//! The registration cache (ICS section 4.1): a program's buffer stays registered after a send. Later sends from the
//! same memory reuse the registration.
//!
//! The cache exists where registering is not free ([`via::Capabilities::registration_is_free`]). The papers note that a
//! cache needs a notification before memory is freed. The kernel gives this notification ([`Caching::Noticed`]), or the
//! program ([`Caching::Told`]).
//!
//! - `ranges`: the registered ranges, their uses and their removal, without I/O;
//! - `watch`, `distrust`: detect that memory is taken away, and record memory for which the notification comes too
//!   early;
//! - this file: calls to the NIC, never under a lock.

mod distrust;
mod ranges;
mod watch;

use crate::error::CachingError;
use core::ops::Range;
use ranges::{Bounds, Ranges, Slot};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::error::RegisterError;
use via::{MemHandle, Nic};
use watch::Watcher;

/// Limits on the number of entries of a cache and on their bytes.
const ENTRIES_MAX: usize = 128;
const BYTES_MAX: usize = 64 << 20;
/// One entry has at most this fraction of the bytes.
const SHARE: usize = 4;
/// Page size for locking, watching and registering. The system's page size is a multiple.
const PAGE: usize = 4096;

/// Decides whether a program's buffers stay registered after a send, and how the stack learns that their memory is
/// gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Caching {
    /// Each send registers its buffer, and deregisters it afterwards.
    Off,
    /// The kernel reports when any call of this process unmaps, remaps or empties registered memory.
    ///
    /// Only private anonymous memory is cached. A userfaultfd of Sovia watches the whole mapping. So calls that take
    /// part of the mapping away become about 10 µs slower, and the program cannot watch it with its own userfaultfd.
    /// Memory that `madvise` has emptied is not cached again until it is unmapped.
    Noticed,
    /// The program promises to call [`crate::Stack::forget`] before it unmaps memory that it has sent from, or frees it
    /// to an allocator that may unmap it. If the program breaks this promise, Sovia may send old bytes instead of the
    /// current ones.
    Told,
}

/// Counters of a stack's registration cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheCounters {
    /// Sends whose memory was already registered.
    pub hits: u64,
    /// Sends whose memory was not registered.
    pub misses: u64,
    /// Entries given up because their memory was, or may have been, taken away.
    pub invalidated: u64,
    /// Entries given up to make room.
    pub evicted: u64,
    /// Current number of entries.
    pub entries: usize,
    /// Bytes of the current entries.
    pub bytes: usize,
}

/// A stack's choice of caching, and its cache.
#[derive(Debug)]
pub(crate) struct Choice<N: Nic + 'static>(Mutex<Chosen<N>>);

#[derive(Debug)]
enum Chosen<N: Nic + 'static> {
    /// No choice yet. The first use chooses the best kind.
    Open,
    Off,
    On(Arc<Cache<N>>),
}

impl<N: Nic + 'static> Default for Choice<N> {
    fn default() -> Choice<N> {
        Choice(Mutex::new(Chosen::Open))
    }
}

impl<N: Nic + 'static> Choice<N> {
    fn lock(&self) -> MutexGuard<'_, Chosen<N>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cache, if the stack uses one.
    pub(crate) fn cache(&self, nic: &Arc<N>) -> Option<Arc<Cache<N>>> {
        if is_free(nic) {
            return None;
        }
        let mut chosen = self.lock();
        if let Chosen::Open = *chosen {
            let noticed = Cache::new(nic, Some(Watcher::get));
            *chosen = noticed.map_or(Chosen::Off, |cache| Chosen::On(Arc::new(cache)));
        }
        match &*chosen {
            Chosen::On(cache) => Some(cache.clone()),
            Chosen::Open | Chosen::Off => None,
        }
    }

    /// Sets the choice. Deregisters cached memory at once, except memory in use, which follows at the end of its last
    /// use.
    pub(crate) fn set(&self, caching: Caching, nic: &Arc<N>) -> Result<(), CachingError> {
        if is_free(nic) {
            return Ok(());
        }
        let new = match caching {
            Caching::Off => Chosen::Off,
            Caching::Noticed => Chosen::On(Arc::new(Cache::new(nic, Some(Watcher::get))?)),
            Caching::Told => Chosen::On(Arc::new(Cache::new(nic, None)?)),
        };
        let old = core::mem::replace(&mut *self.lock(), new);
        drop(old);
        Ok(())
    }

    /// Returns the choice, or the default if there is none.
    pub(crate) fn get(&self, nic: &Arc<N>) -> Caching {
        match self.cache(nic) {
            Some(cache) if cache.watcher.is_some() => Caching::Noticed,
            Some(_) => Caching::Told,
            None => Caching::Off,
        }
    }

    pub(crate) fn forget(&self, range: &Range<usize>) {
        let cache = match &*self.lock() {
            Chosen::On(cache) => cache.clone(),
            Chosen::Open | Chosen::Off => return,
        };
        cache.forget(range);
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        match &*self.lock() {
            Chosen::On(cache) => cache.counters(),
            Chosen::Open | Chosen::Off => CacheCounters::default(),
        }
    }

    /// Disables the cache when the stack ends.
    pub(crate) fn end(&self) {
        let old = core::mem::replace(&mut *self.lock(), Chosen::Off);
        drop(old);
    }
}

fn is_free<N: Nic>(nic: &Arc<N>) -> bool {
    nic.attributes().capabilities.registration_is_free
}

/// Registered memory of the program.
#[derive(Debug)]
pub(crate) struct Cache<N: Nic + 'static> {
    nic: Arc<N>,
    watcher: Option<&'static Watcher>,
    ranges: Arc<watch::Shared>,
    /// Largest number of bytes of an entry.
    share: usize,
}

/// A use of a cache entry by a send.
#[derive(Debug)]
pub(crate) struct Used<N: Nic + 'static> {
    cache: Arc<Cache<N>>,
    slot: Slot,
    pub(crate) handle: MemHandle,
}

impl<N: Nic + 'static> Cache<N> {
    fn new(
        nic: &Arc<N>,
        watcher: Option<fn() -> Result<&'static Watcher, sovia_sys::Errno>>,
    ) -> Result<Cache<N>, CachingError> {
        let attributes = nic.attributes();
        // Leave room in the NIC, because streams register memory too.
        let bounds = Bounds {
            entries: ENTRIES_MAX.min(attributes.max_register_regions as usize / SHARE),
            bytes: usize::try_from(attributes.max_register_bytes)
                .map_or(BYTES_MAX, |bytes| BYTES_MAX.min(bytes / SHARE)),
        };
        let block = usize::try_from(attributes.max_register_block_bytes).unwrap_or(usize::MAX);
        let share = block.min(bounds.bytes / SHARE);
        let ranges = Arc::new(Mutex::new(Ranges::new(bounds)));
        let watcher = match watcher {
            Some(watcher) => {
                let watcher = watcher().map_err(CachingError::from)?;
                if !watcher.join(&ranges) {
                    return Err(CachingError::TooMany);
                }
                Some(watcher)
            }
            None => None,
        };
        Ok(Cache { nic: nic.clone(), watcher, ranges, share })
    }

    /// Locks the ranges. While the lock is held, this code allocates nothing, frees nothing and does not call the NIC;
    /// see `watch`.
    fn ranges(&self) -> MutexGuard<'_, Ranges<MemHandle>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds registered memory that contains `part`, a live slice. Otherwise registers whole pages around `part` by
    /// `register`, if possible all pages of `whole`. Returns `None` if the memory cannot be cached.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        part: &Range<usize>,
        whole: &Range<usize>,
        register: impl Fn(&Range<usize>) -> Result<MemHandle, RegisterError>,
    ) -> Option<Used<N>> {
        if self.watcher.is_some_and(|watcher| !watcher.is_settled()) {
            // A thread is taking memory away now, maybe this memory.
            self.ranges().missed();
            return None;
        }
        let mut ranges = self.ranges();
        if let Some((slot, handle)) = ranges.find(part) {
            drop(ranges);
            return Some(Used { cache: self.clone(), slot, handle });
        }
        // Prefer all memory of the current write, which makes one registration.
        let pages = [whole, part].map(pages).into_iter().find(|pages| pages.len() <= self.share)?;
        ranges.make_room(&pages);
        drop(ranges);
        self.collect();
        let slot = self.ranges().reserve(pages.clone())?;
        // From now on the watcher invalidates the entry when its memory changes. Earlier changes do not matter, because
        // the slice is live and its pages are current.
        let watched = self.watcher.is_none_or(|watcher| watcher.watch(&pages));
        let registered = if watched { self.registered(&pages, register) } else { None };
        let Some(handle) = registered else {
            self.ranges().abandon(slot);
            return None;
        };
        self.ranges().ready(slot, handle);
        Some(Used { cache: self.clone(), slot, handle })
    }

    /// Registers pages. If the NIC has no room, evicts all idle entries and tries again.
    fn registered(
        &self,
        pages: &Range<usize>,
        register: impl Fn(&Range<usize>) -> Result<MemHandle, RegisterError>,
    ) -> Option<MemHandle> {
        match register(pages) {
            Err(
                RegisterError::TooManyBytes
                | RegisterError::TooManyRegions
                | RegisterError::LockedMemory,
            ) => {
                self.ranges().evict_all();
                self.collect();
                register(pages).ok()
            }
            registered => registered.ok(),
        }
    }

    /// Deregisters invalid entries without uses.
    fn collect(&self) {
        loop {
            let Some(handle) = self.ranges().take_gone() else { return };
            // The call cannot fail, because the handle is known.
            let _ = self.nic.deregister_mem(handle);
        }
    }

    fn counters(&self) -> CacheCounters {
        if let Some(watcher) = self.watcher {
            watcher.settle();
        }
        self.ranges().counters()
    }

    fn forget(&self, range: &Range<usize>) {
        let gone = self.ranges().invalidate(range);
        if gone {
            self.collect();
        }
    }
}

impl<N: Nic + 'static> Drop for Used<N> {
    fn drop(&mut self) {
        let gone = self.cache.ranges().release(self.slot);
        if gone {
            self.cache.collect();
        }
    }
}

impl<N: Nic + 'static> Drop for Cache<N> {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher {
            watcher.leave(&self.ranges);
        }
        self.ranges().evict_all();
        self.collect();
    }
}

/// Returns the whole pages that contain a range.
fn pages(range: &Range<usize>) -> Range<usize> {
    range.start & !(PAGE - 1)..range.end.next_multiple_of(PAGE)
}
