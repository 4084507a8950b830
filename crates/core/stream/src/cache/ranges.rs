//! The registered ranges of memory: a data structure without I/O and with opaque tokens.
//!
//! The structure allocates all its memory when it is created. The thread that detects unmapped memory (`watch`) calls
//! [`Ranges::invalidate`], and must not allocate or free.

use super::CacheCounters;
use core::ops::Range;

/// Limits of the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) entries: usize,
    /// Bytes of all entries.
    pub(crate) bytes: usize,
}

/// Identifies an entry while it is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(usize);

#[derive(Debug, Clone)]
struct Entry<T> {
    range: Range<usize>,
    /// Identifies the registration, once it exists.
    token: Option<T>,
    uses: u32,
    /// Set while the entry can be found. An invalid entry is removed when its last use ends.
    valid: bool,
    /// Time of the last use.
    used: u64,
}

impl<T> Entry<T> {
    fn is_idle(&self) -> bool {
        self.valid && self.uses == 0
    }
}

/// Registered ranges and their uses.
#[derive(Debug)]
pub(crate) struct Ranges<T> {
    bounds: Bounds,
    slots: Box<[Option<Entry<T>>]>,
    /// Index of the entry found last, which `find` checks first.
    last: usize,
    /// Bytes of all entries, including invalid entries that are still in use.
    bytes: usize,
    clock: u64,
    counters: CacheCounters,
}

impl<T: Copy> Ranges<T> {
    pub(crate) fn new(bounds: Bounds) -> Ranges<T> {
        let slots = (0..bounds.entries).map(|_| None).collect();
        let counters = CacheCounters::default();
        Ranges { bounds, slots, last: 0, bytes: 0, clock: 0, counters }
    }

    /// Returns the counters.
    pub(crate) fn counters(&self) -> CacheCounters {
        let entries = self.slots.iter().flatten().count();
        CacheCounters { entries, bytes: self.bytes, ..self.counters }
    }

    /// Returns an entry that contains the range, and counts a use of it. Counts a hit or a miss.
    pub(crate) fn find(&mut self, range: &Range<usize>) -> Option<(Slot, T)> {
        let usable = |entry: &Entry<T>| {
            let within = entry.range.start <= range.start && range.end <= entry.range.end;
            entry.token.filter(|_| entry.valid && within)
        };
        let count = self.slots.len();
        let mut places = core::iter::once(self.last).chain(0..count);
        let found = places.find_map(|at| Some((at, usable(self.slots.get(at)?.as_ref()?)?)));
        let Some((at, token)) = found else {
            self.missed();
            return None;
        };
        self.counters.hits += 1;
        self.last = at;
        self.clock += 1;
        if let Some(entry) = &mut self.slots[at] {
            entry.uses += 1;
            entry.used = self.clock;
        }
        Some((Slot(at), token))
    }

    /// Counts a miss without a search.
    pub(crate) fn missed(&mut self) {
        self.counters.misses += 1;
    }

    /// Gives up idle entries to make room for a new one: those within `range`, then the least recently used ones. The
    /// caller must remove them by [`Ranges::take_gone`] before [`Ranges::reserve`].
    pub(crate) fn make_room(&mut self, range: &Range<usize>) {
        if range.len() > self.bounds.bytes {
            return;
        }
        let within =
            |entry: &Entry<T>| range.start <= entry.range.start && entry.range.end <= range.end;
        let mut staying = (0, 0);
        for entry in self.slots.iter_mut().flatten() {
            if entry.is_idle() && within(entry) {
                entry.valid = false;
                self.counters.evicted += 1;
            }
            if entry.valid || entry.uses > 0 {
                staying = (staying.0 + 1, staying.1 + entry.range.len());
            }
        }
        while staying.0 >= self.bounds.entries || staying.1 + range.len() > self.bounds.bytes {
            let Some(bytes) = self.evict() else { return };
            staying = (staying.0 - 1, staying.1 - bytes);
        }
    }

    /// Gives up the least recently used idle entry. Returns its bytes.
    fn evict(&mut self) -> Option<usize> {
        let idle = self.slots.iter_mut().flatten().filter(|entry| entry.is_idle());
        let oldest = idle.min_by_key(|entry| entry.used)?;
        oldest.valid = false;
        self.counters.evicted += 1;
        Some(oldest.range.len())
    }

    /// Gives up all idle entries.
    pub(crate) fn evict_all(&mut self) {
        while self.evict().is_some() {}
    }

    /// Adds an entry with one use, which the caller will register; `None` if there is no room.
    pub(crate) fn reserve(&mut self, range: Range<usize>) -> Option<Slot> {
        if range.len() > self.bounds.bytes - self.bytes {
            return None;
        }
        let at = self.slots.iter().position(Option::is_none)?;
        self.bytes += range.len();
        self.clock += 1;
        let used = self.clock;
        self.slots[at] = Some(Entry { range, token: None, uses: 1, valid: true, used });
        Some(Slot(at))
    }

    /// Stores the registration of a new entry.
    pub(crate) fn ready(&mut self, Slot(at): Slot, token: T) {
        if let Some(entry) = &mut self.slots[at] {
            entry.token = Some(token);
        }
        self.last = at;
    }

    /// Removes a new entry that could not be registered, or must not be.
    pub(crate) fn abandon(&mut self, Slot(at): Slot) {
        if let Some(entry) = self.slots[at].take() {
            self.bytes -= entry.range.len();
        }
    }

    /// Ends a use. Returns true if the caller can now take the entry by [`Ranges::take_gone`].
    pub(crate) fn release(&mut self, Slot(at): Slot) -> bool {
        let Some(entry) = &mut self.slots[at] else { return false };
        entry.uses -= 1;
        entry.uses == 0 && !entry.valid
    }

    /// Makes all entries invalid that overlap `range`, because the memory has other pages. Returns true if the caller
    /// can take entries by [`Ranges::take_gone`].
    pub(crate) fn invalidate(&mut self, range: &Range<usize>) -> bool {
        let mut gone = false;
        for entry in self.slots.iter_mut().flatten() {
            if entry.valid && entry.range.start < range.end && range.start < entry.range.end {
                entry.valid = false;
                self.counters.invalidated += 1;
                gone |= entry.uses == 0;
            }
        }
        gone
    }

    /// Removes an invalid entry without uses. Returns its registration, which the caller must undo.
    pub(crate) fn take_gone(&mut self) -> Option<T> {
        for slot in &mut self.slots {
            if let Some(entry) = slot.take_if(|entry| !entry.valid && entry.uses == 0) {
                self.bytes -= entry.range.len();
                if entry.token.is_some() {
                    return entry.token;
                }
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
