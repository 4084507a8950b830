//! Which ranges of memory are registered: a pure structure, whose tokens mean nothing to it.
//!
//! It is made with all the memory that it ever needs, and nothing here allocates or frees: the
//! thread that notices memory going away (`watch`) calls [`Ranges::invalidate`], and may not.

use super::CacheCounters;
use core::ops::Range;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) entries: usize,
    /// Bytes of all entries.
    pub(crate) bytes: usize,
}

/// Names an entry for as long as it is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(usize);

#[derive(Debug, Clone)]
struct Entry<T> {
    range: Range<usize>,
    /// Names the registration, once there is one.
    token: Option<T>,
    uses: u32,
    /// It may be found. Once it may not, it goes when its last use ends.
    valid: bool,
    /// When it was used last.
    used: u64,
}

impl<T> Entry<T> {
    fn is_idle(&self) -> bool {
        self.valid && self.uses == 0
    }
}

/// Registered ranges, with their uses.
#[derive(Debug)]
pub(crate) struct Ranges<T> {
    bounds: Bounds,
    slots: Box<[Option<Entry<T>>]>,
    /// Where the last one was found: the first to be looked at.
    last: usize,
    /// Of all entries, also of those that are about to go.
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

    /// What has happened so far, and what there is.
    pub(crate) fn counters(&self) -> CacheCounters {
        let entries = self.slots.iter().flatten().count();
        CacheCounters { entries, bytes: self.bytes, ..self.counters }
    }

    /// An entry that the range lies in, in use from now on. Counts a hit or a miss.
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

    /// There was no time to look: counts a miss.
    pub(crate) fn missed(&mut self) {
        self.counters.misses += 1;
    }

    /// Gives up what stands in the way of a new entry: those within it, and the ones that have not
    /// been used for the longest time. They are to be taken by [`Ranges::take_gone`] before
    /// [`Ranges::reserve`].
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

    /// Gives the longest unused entry up; how many bytes it has.
    fn evict(&mut self) -> Option<usize> {
        let idle = self.slots.iter_mut().flatten().filter(|entry| entry.is_idle());
        let oldest = idle.min_by_key(|entry| entry.used)?;
        oldest.valid = false;
        self.counters.evicted += 1;
        Some(oldest.range.len())
    }

    /// Gives everything up that can be registered again.
    pub(crate) fn evict_all(&mut self) {
        while self.evict().is_some() {}
    }

    /// A new entry, in use, that is about to be registered; `None` where there is no room.
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

    /// It is registered.
    pub(crate) fn ready(&mut self, Slot(at): Slot, token: T) {
        if let Some(entry) = &mut self.slots[at] {
            entry.token = Some(token);
        }
        self.last = at;
    }

    /// It could not be registered, or is not to be.
    pub(crate) fn abandon(&mut self, Slot(at): Slot) {
        if let Some(entry) = self.slots[at].take() {
            self.bytes -= entry.range.len();
        }
    }

    /// A use has ended; whether there is something to take now.
    pub(crate) fn release(&mut self, Slot(at): Slot) -> bool {
        let Some(entry) = &mut self.slots[at] else { return false };
        entry.uses -= 1;
        entry.uses == 0 && !entry.valid
    }

    /// Memory has changed its pages: nothing that has any of it is found again. Whether there is
    /// something to take now.
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

    /// A registration that is to be undone. Nothing uses it.
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
