//! The registration cache (ICS section 4.1): a program's buffer that was registered for a send stays
//! so, and is found again when another send lies in it.
//!
//! It is there where registering is not free ([`via::Capabilities::registration_is_free`]). What the
//! papers say is missing, a word before memory is freed, the kernel gives ([`Caching::Noticed`]), or
//! the program ([`Caching::Told`]).
//!
//! - `ranges`: which ranges are registered, in use, given up: without I/O;
//! - `watch`, `distrust`: what notices that memory goes away, and what cannot be noticed in time;
//! - here: what the NIC is asked for, never under a lock.

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

/// Entries of a cache, and its bytes: what it keeps registered at most.
const ENTRIES_MAX: usize = 128;
const BYTES_MAX: usize = 64 << 20;
/// One entry has at most this part of the bytes.
const SHARE: usize = 4;
/// What is pinned, watched and registered: whole pages of this many bytes, or of a multiple.
const PAGE: usize = 4096;

/// Whether buffers that a program sends from stay registered, and how a stack learns that they are
/// gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Caching {
    /// Each send registers, and deregisters.
    Off,
    /// The kernel tells when registered memory is unmapped, remapped or emptied, by whichever call of
    /// this process's. Only private memory of no file is cached. For this the mapping is watched by a
    /// userfaultfd of Sovia's: calls that take some of it away are some 10 µs slower from then on, and
    /// the program cannot watch it by one of its own. What was emptied by `madvise` is no longer
    /// cached until it is unmapped.
    Noticed,
    /// The program promises to call [`crate::Stack::forget`] before it takes memory away that it has
    /// sent from, or has some freed by an allocator that may. Where it does not, what used to lie at
    /// an address may be sent in place of what lies there.
    Told,
}

/// What a stack's registration cache has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheCounters {
    /// Sends whose memory was registered already.
    pub hits: u64,
    /// Sends whose memory was not.
    pub misses: u64,
    /// Entries that were given up because their memory went away, or may have.
    pub invalidated: u64,
    /// Entries that were given up for the room they took.
    pub evicted: u64,
    /// Entries that there are.
    pub entries: usize,
    /// Bytes that they have.
    pub bytes: usize,
}

/// What a stack was told about caching, and its cache.
#[derive(Debug)]
pub(crate) struct Choice<N: Nic + 'static>(Mutex<Chosen<N>>);

#[derive(Debug)]
enum Chosen<N: Nic + 'static> {
    /// Nothing yet: what is best here, when it is needed.
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

    /// The cache, if there is to be one.
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

    /// Chooses. What was cached is deregistered, but for what is in use, which goes with that.
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

    /// What has been chosen, or would be.
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

    /// The stack ends: nothing uses the cache any more.
    pub(crate) fn end(&self) {
        let old = core::mem::replace(&mut *self.lock(), Chosen::Off);
        drop(old);
    }
}

fn is_free<N: Nic>(nic: &Arc<N>) -> bool {
    nic.attributes().capabilities.registration_is_free
}

/// Registered memory of the program's.
#[derive(Debug)]
pub(crate) struct Cache<N: Nic + 'static> {
    nic: Arc<N>,
    watcher: Option<&'static Watcher>,
    ranges: Arc<watch::Shared>,
    /// Bytes of an entry at most.
    share: usize,
}

/// What a send uses of a cache.
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
        // Not everything that the NIC can hold: streams register memory of their own.
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

    /// The ranges: nothing is allocated, freed or asked of the NIC while they are held (`watch`).
    fn ranges(&self) -> MutexGuard<'_, Ranges<MemHandle>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds memory registered that a live slice lies in, or has it registered by `register`, which
    /// is given whole pages that lie in `whole`, around it. `None` where it is not to be cached.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        part: &Range<usize>,
        whole: &Range<usize>,
        register: impl Fn(&Range<usize>) -> Result<MemHandle, RegisterError>,
    ) -> Option<Used<N>> {
        if self.watcher.is_some_and(|watcher| !watcher.is_settled()) {
            // A thread takes memory away just now. Perhaps it was here.
            self.ranges().missed();
            return None;
        }
        let mut ranges = self.ranges();
        if let Some((slot, handle)) = ranges.find(part) {
            drop(ranges);
            return Some(Used { cache: self.clone(), slot, handle });
        }
        // All of what the program writes at once, so that it is one registration.
        let pages = [whole, part].map(pages).into_iter().find(|pages| pages.len() <= self.share)?;
        ranges.make_room(&pages);
        drop(ranges);
        self.collect();
        let slot = self.ranges().reserve(pages.clone())?;
        // From now on the entry learns what becomes of the memory. What had happened before did not
        // concern pages that the slice lies in.
        let watched = self.watcher.is_none_or(|watcher| watcher.watch(&pages));
        let registered = if watched { self.registered(&pages, register) } else { None };
        let Some(handle) = registered else {
            self.ranges().abandon(slot);
            return None;
        };
        self.ranges().ready(slot, handle);
        Some(Used { cache: self.clone(), slot, handle })
    }

    /// Registers; where the NIC has no room, without all that is only kept.
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

    /// Deregisters what nothing uses and nothing may find.
    fn collect(&self) {
        loop {
            let Some(handle) = self.ranges().take_gone() else { return };
            // It fails for an unknown handle only, and this one is known.
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

/// The whole pages that a range has a part of.
fn pages(range: &Range<usize>) -> Range<usize> {
    range.start & !(PAGE - 1)..range.end.next_multiple_of(PAGE)
}
