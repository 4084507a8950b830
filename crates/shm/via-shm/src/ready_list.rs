//! Bells and ready lists: which threads and ready lists wait for a direction of a VI, and how they are woken.
//!
//! There are two kinds of sleepers. A thread blocked on one VI sleeps on that direction's own futex word
//! ([`Bell`]). What waits for many VIs (an epoll instance, a call of poll or select) is a
//! [`ReadyList`]: a bitmap of VIs with news, so that the cost of a look grows with the ready VIs and not with
//! the registered ones, and a flag that says whether a kernel doorbell must be rung.
//!
//! The protocol against missed wake-ups is the same for both. The sleeper: publish "I sleep", full
//! fence, look once more, sleep. The ringer: publish the news, full fence, look at the flag. At
//! least one of the two sees the other. (`tests/loom` checks this, and that without the fences
//! it fails.) A ringer that has long found no sleeper leaves its fence to the sleepers
//! ([`crate::quiet`]).

use crate::sync::{At, AtomicU32, AtomicU64, Ordering, fence, point};
use sovia_sync::fences::{self, Reach};
use sovia_sys::{call, clock};

/// VIs that one ready list can watch: as many as a segment has.
pub const VIS: u32 = 1024;
const WORDS: usize = (VIS / 64) as usize;

/// Per direction: the threads and ready lists that a ringer wakes after an event. Others write it around sleeps only, so
/// the ringer's look at it stays in its own cache.
///
/// A sleep that has been announced counts until a ringer has woken the sleepers after it. Nothing takes an
/// announcement back: a thread that ends in its sleep, is cancelled in it or comes to it when the VI has got
/// its next connection leaves one ring too many, and no sleeper without a ring.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Bell {
    /// Low half: how many sleeps on `word` have been announced. High half: a bit for each ready list of the
    /// waiting side that watches this direction.
    who: AtomicU64,
    /// Changed at each ring.
    word: AtomicU32,
    /// How many of the announced sleeps are over.
    rung: AtomicU32,
    /// Which side executes the ringer's fence: [`BY_RINGER`], [`BY_SLEEPER`] or [`REFUSED`].
    fencing: AtomicU32,
    /// When the VI was last marked for a ready list, in [`clock::ticks`].
    #[cfg(not(loom))]
    marked: AtomicU64,
}

/// The ringer fences itself.
const BY_RINGER: u32 = 0;
/// A thread that announces a sleep has the kernel fence the ringer.
const BY_SLEEPER: u32 = 1;
/// The ringer fences itself for good: the kernel has refused a sleeper.
const REFUSED: u32 = 2;
/// How long a thread that the kernel has refused waits before its sleep, once: what the ringer's processor has
/// stored is in memory long before, and the ringer's later looks find the thread's announcement.
const WITHOUT_FENCE_NS: u64 = 20_000_000;

/// The sleepers and ready lists that [`Bell::look`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listeners {
    /// Threads asleep on the bell's word.
    pub sleepers: bool,
    /// Bitmap of ready lists.
    pub ready_lists: u32,
}

impl Bell {
    /// A bell with no sleeper and no ready list.
    #[cfg(loom)]
    pub fn new() -> Bell {
        Bell {
            who: AtomicU64::new(0),
            word: AtomicU32::new(0),
            rung: AtomicU32::new(0),
            fencing: AtomicU32::new(BY_RINGER),
        }
    }

    /// For the ringer, after it has published its news: the sleepers and ready lists that it must wake.
    #[inline]
    pub fn look(&self) -> Option<Listeners> {
        fence(Ordering::SeqCst);
        self.listeners()
    }

    /// The same where a fence is put from outside, or has been passed.
    #[inline(always)]
    pub(crate) fn listeners(&self) -> Option<Listeners> {
        let (who, rung) = (self.who.load(Ordering::Relaxed), self.rung.load(Ordering::Relaxed));
        if who == u64::from(rung) {
            return None;
        }
        point(At::Waking);
        Some(Listeners { sleepers: who as u32 != rung, ready_lists: (who >> 32) as u32 })
    }

    /// The ringer fences itself no more, if it may: its later looks come after this.
    pub(crate) fn leave_fence_to_sleepers(&self) -> bool {
        let (from, to) = (BY_RINGER, BY_SLEEPER);
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let found = self.fencing.compare_exchange(from, to, success, failure);
        // SYNC: with the one of a thread that announces its sleep, in `announced`.
        fence(Ordering::SeqCst);
        // `BY_SLEEPER`: perhaps a thread has stored it and died before it knew.
        matches!(found, Ok(_) | Err(BY_SLEEPER))
    }

    /// Whether the ringer's fence is left to sleepers still.
    #[inline(always)]
    pub(crate) fn is_fence_left(&self) -> bool {
        self.fencing.load(Ordering::Relaxed) == BY_SLEEPER
    }

    /// The ringer fences itself from here on, first before the look that follows this.
    pub(crate) fn take_fence_back(&self) {
        let (from, to) = (BY_SLEEPER, BY_RINGER);
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = self.fencing.compare_exchange(from, to, success, failure);
    }

    /// The calling thread has announced its sleep, or a ready list. For what the ringer publishes from here on, it rings;
    /// what it has published before, the calling thread sees from here on.
    fn announced(&self) {
        // SYNC: with the ringer's, in `look` or in `leave_fence_to_sleepers`.
        fence(Ordering::SeqCst);
        if self.fencing.load(Ordering::Relaxed) == BY_SLEEPER {
            self.fence_ringer();
        }
    }

    #[cold]
    #[inline(never)]
    fn fence_ringer(&self) {
        // SYNC: with the ringer's `light`.
        if !fences::heavy(Reach::Host) {
            self.fencing.store(REFUSED, Ordering::SeqCst);
            let end = clock::now_ns() + WITHOUT_FENCE_NS;
            while clock::now_ns() < end {
                call::sched_yield();
            }
        }
    }

    /// The word to sleep on. Its value is loaded before the last look.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Announces a sleep. The caller looks for news once more before it sleeps on the value of
    /// [`Bell::word`] that it had loaded earlier.
    pub fn going_to_sleep(&self) {
        // In the low half only: the count wraps around without touching the ready lists' bits.
        let next = |who: u64| who & !u64::from(u32::MAX) | u64::from((who as u32).wrapping_add(1));
        let _ = self.who.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |who| Some(next(who)));
        self.announced();
        point(At::Sleeping);
    }

    /// Wakes the threads that sleep on the word: `wake` is told to.
    pub(crate) fn wake_by(&self, wake: impl FnOnce()) {
        // SYNC: in this order. A sleep that is counted here was announced by a thread which had loaded the
        // word before, so it sees the word changed, or is asleep and woken. Only then is it over.
        let announced = self.who.load(Ordering::SeqCst) as u32;
        self.ring();
        wake();
        self.rung.store(announced, Ordering::SeqCst);
    }

    /// Wakes the threads that sleep on the word, after news have been published.
    #[cfg(not(loom))]
    pub fn wake(&self) {
        self.wake_by(|| {
            sovia_sys::futex::wake(&self.word, u32::MAX >> 1);
        });
    }

    /// The same, where `wake` stands for the kernel.
    #[cfg(loom)]
    pub fn wake(&self, wake: impl FnOnce()) {
        self.wake_by(wake);
    }

    /// Notes that the VI is about to be marked for a ready list.
    #[cfg(not(loom))]
    #[inline]
    pub fn note_mark(&self) {
        self.marked.store(clock::ticks(), Ordering::Relaxed);
    }

    /// Returns when the VI was last marked for a ready list, in [`clock::ticks`]: what the ringer says, for the order alone.
    #[cfg(not(loom))]
    #[inline]
    pub fn marked(&self) -> u64 {
        self.marked.load(Ordering::Relaxed)
    }

    /// The ready lists that are notified of news, a bit for each.
    pub fn watchers(&self) -> u32 {
        (self.who.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Changes the word: threads that spin look at it.
    pub fn ring(&self) {
        self.word.fetch_add(1, Ordering::SeqCst);
    }

    /// Has ready list `index` notified of news from now on.
    pub fn watch(&self, index: u32) {
        self.who.fetch_or(1 << (32 + (index & 31)), Ordering::SeqCst);
        self.announced();
    }

    /// Stops notifying ready list `index`.
    pub fn unwatch(&self, index: u32) {
        self.who.fetch_and(!(1 << (32 + (index & 31))), Ordering::SeqCst);
    }

    /// Forgets all sleepers and ready lists, for a VI's next life.
    pub fn clear(&self) {
        self.who.store(0, Ordering::SeqCst);
        self.rung.store(0, Ordering::SeqCst);
        self.fencing.store(BY_RINGER, Ordering::SeqCst);
    }
}

/// Wakes the threads that sleep on `bell`, after news have been published; `ring` is called with the ready lists
/// that listen (a bitmap, never 0).
#[cfg(not(loom))]
#[inline]
pub fn tell(bell: &Bell, ring: impl FnOnce(u32)) {
    tell_found(bell, bell.look(), ring);
}

/// The same, once those that listen have been looked for.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn tell_found(bell: &Bell, found: Option<Listeners>, ring: impl FnOnce(u32)) {
    if let Some(listeners) = found {
        if listeners.sleepers {
            bell.wake();
        }
        if listeners.ready_lists != 0 {
            ring(listeners.ready_lists);
        }
    }
}

/// One that waits for many VIs.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ReadyList {
    /// Not 0: asleep, ring the doorbell, or wake the threads that sleep on this word.
    sleeping: AtomicU32,
    /// Which of its process's doorbells rings it.
    doorbell: AtomicU32,
    /// A bit for each word of `ready` that is not zero.
    summary: AtomicU64,
    ready: [AtomicU64; WORDS],
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
#[cfg(not(loom))]
const ASLEEP_ON_WORD: u32 = 2;

impl ReadyList {
    /// Awake, nothing ready.
    #[cfg(loom)]
    pub fn new() -> ReadyList {
        ReadyList {
            sleeping: AtomicU32::new(AWAKE),
            doorbell: AtomicU32::new(0),
            summary: AtomicU64::new(0),
            ready: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The ringer's part: marks a VI ready. Returns the doorbell to ring, if one must be.
    /// The news itself must have been published, and [`Bell::look`]'s fence passed, before.
    #[inline]
    pub fn notify(&self, vi: u32) -> Option<u32> {
        self.notify_after(vi, || {})
    }

    /// Does what [`ReadyList::notify`] does, and calls `first` before it makes a mark that is not there.
    #[inline]
    pub fn notify_after(&self, vi: u32, first: impl FnOnce()) -> Option<u32> {
        let word = (vi / 64) as usize % WORDS;
        let bit = 1u64 << (vi % 64);
        // A bit that is set is one that the ready list has yet to clear; it will look at the VI after
        // that, and `look`'s fence lets it see the news.
        if self.ready[word].load(Ordering::Relaxed) & bit == 0 {
            first();
            self.ready[word].fetch_or(bit, Ordering::SeqCst);
            if self.summary.load(Ordering::Relaxed) & (1 << word) == 0 {
                self.summary.fetch_or(1 << word, Ordering::SeqCst);
            }
            fence(Ordering::SeqCst);
            point(At::Published);
        }
        match self.sleeping.load(Ordering::Relaxed) {
            AWAKE => None,
            asleep => self.ring(asleep),
        }
    }

    /// Rings for a sleeper. Of several ringers one does; the doorbell, if it is that which rings.
    fn ring(&self, asleep: u32) -> Option<u32> {
        let first =
            self.sleeping.compare_exchange(asleep, AWAKE, Ordering::SeqCst, Ordering::Relaxed);
        if first.is_err() {
            return None;
        }
        #[cfg(not(loom))]
        if asleep == ASLEEP_ON_WORD {
            sovia_sys::futex::wake(&self.sleeping, u32::MAX >> 1);
            return None;
        }
        Some(self.doorbell.load(Ordering::Relaxed))
    }

    /// Whether anything may be ready; costs one load.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.summary.load(Ordering::Relaxed) != 0
    }

    /// Takes all marks and hands each VI's number to `each`, which then looks at the VI.
    #[inline]
    pub fn drain(&self, mut each: impl FnMut(u32)) {
        if !self.has_news() {
            return;
        }
        let mut summary = self.summary.swap(0, Ordering::SeqCst);
        point(At::LookedUp);
        while summary != 0 {
            let word = summary.trailing_zeros() as usize;
            summary &= summary - 1;
            if word >= WORDS {
                break;
            }
            let mut bits = self.ready[word].swap(0, Ordering::SeqCst);
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                each(word as u32 * 64 + bit);
            }
        }
        // The caller's looks at the VIs come after the clearing of their bits.
        fence(Ordering::SeqCst);
    }

    /// Announces sleep. The caller looks once more ([`ReadyList::has_news`]) before it sleeps.
    pub fn going_to_sleep(&self) {
        self.sleeping.store(ASLEEP, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        point(At::Sleeping);
    }

    /// As [`ReadyList::going_to_sleep`], of a thread that sleeps on [`ReadyList::sleep_word`] instead of on a
    /// doorbell. Returns what the word holds until the next ring.
    #[cfg(not(loom))]
    pub fn going_to_sleep_on_word(&self) -> u32 {
        self.sleeping.store(ASLEEP_ON_WORD, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        point(At::Sleeping);
        ASLEEP_ON_WORD
    }

    /// The word that a ringer changes.
    #[cfg(not(loom))]
    pub fn sleep_word(&self) -> &AtomicU32 {
        &self.sleeping
    }

    /// Says again which doorbell rings the ready list, before a sleep: a ring elsewhere would be lost.
    pub fn rung_by(&self, doorbell: u32) {
        if self.doorbell.load(Ordering::Relaxed) != doorbell {
            self.doorbell.store(doorbell, Ordering::SeqCst);
        }
    }

    /// Puts every mark into the summary. A mark that is missing there would not be found, and would
    /// keep ringers from making it again.
    pub fn summarise(&self) {
        for (i, word) in self.ready.iter().enumerate() {
            if word.load(Ordering::SeqCst) != 0 {
                self.summary.fetch_or(1 << i, Ordering::SeqCst);
            }
        }
    }

    /// Takes the announcement back.
    #[inline]
    pub fn awake(&self) {
        if self.sleeping.load(Ordering::Relaxed) != AWAKE {
            self.sleeping.store(AWAKE, Ordering::SeqCst);
        }
    }

    /// Makes the ready list fresh: awake, nothing ready, rung by `doorbell`.
    pub fn reset(&self, doorbell: u32) {
        self.sleeping.store(AWAKE, Ordering::SeqCst);
        self.doorbell.store(doorbell, Ordering::SeqCst);
        self.summary.store(0, Ordering::SeqCst);
        for word in &self.ready {
            word.store(0, Ordering::SeqCst);
        }
    }
}
