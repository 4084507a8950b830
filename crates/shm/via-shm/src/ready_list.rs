//! Waits for a direction of a VI: which threads and ready lists wait, and how a notifier wakes them.
//!
//! There are two kinds of waiting. A thread blocked on one VI sleeps on the futex word of that direction ([`Bell`]). An
//! epoll instance, or a call of poll or select, waits for many VIs by a [`ReadyList`]. A ready list is a bitmap of VIs
//! with events, and a flag that is set while its owner sleeps. So the cost of a look grows with the number of ready
//! VIs, not with the number of watched VIs.
//!
//! One protocol prevents missed wake-ups for both kinds. The sleeper stores "I sleep", executes a full fence, looks for
//! events once more, and sleeps. The notifier stores the event, executes a full fence, and loads the "I sleep" word. At
//! least one of the two sees the other's store. (`tests/loom` checks this, and that it fails without the fences.) A
//! notifier that has found no sleeper for long leaves its fence to the sleepers ([`crate::quiet`]).

use crate::sync::{At, AtomicU32, AtomicU64, Ordering, fence, point};
use sovia_sync::fences::{self, Reach};
use sovia_sys::{call, clock};

/// Number of VIs that one ready list can watch: all VIs of a segment.
pub const VIS: u32 = 1024;
const WORDS: usize = (VIS / 64) as usize;

/// The threads and ready lists of a direction that a notifier wakes after an event. Other threads write to it only
/// around their sleeps, so it normally stays in the notifier's cache.
///
/// An announced sleep counts until a notifier has woken the sleepers after the announcement. Nothing else takes an
/// announcement back. A thread may die in its sleep, be cancelled, or announce its sleep only after the VI's next
/// connection has begun. Each case costs one unneeded wake-up, and never loses one.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Bell {
    /// Low half: number of announced sleeps on `word`. High half: a bit for each ready list of the waiting side that
    /// watches this direction.
    who: AtomicU64,
    /// Futex word. Changed at each wake-up.
    word: AtomicU32,
    /// Number of announced sleeps that are over.
    rung: AtomicU32,
    /// Which side executes the notifier's fence: [`BY_RINGER`], [`BY_SLEEPER`] or [`REFUSED`].
    fencing: AtomicU32,
    /// Time, in [`clock::ticks`], when a notifier last set the VI's bit in a ready list.
    #[cfg(not(loom))]
    marked: AtomicU64,
}

/// The notifier executes the fence.
const BY_RINGER: u32 = 0;
/// A thread that announces a sleep has the kernel execute the fence in the notifier.
const BY_SLEEPER: u32 = 1;
/// The notifier executes the fence for good, because the kernel has refused to do so for a sleeper.
const REFUSED: u32 = 2;
/// Time that a thread waits, once, before its sleep if the kernel has refused the fence. By then the stores of the
/// notifier's processor have reached memory, and the notifier's later looks find the thread's announcement.
const WITHOUT_FENCE_NS: u64 = 20_000_000;

/// Sleeping threads and ready lists that [`Bell::look`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listeners {
    /// Set if threads sleep on the futex word.
    pub sleepers: bool,
    /// Bitmap of the ready lists to notify.
    pub ready_lists: u32,
}

impl Bell {
    /// Returns a `Bell` without sleepers and ready lists.
    #[cfg(loom)]
    pub fn new() -> Bell {
        Bell {
            who: AtomicU64::new(0),
            word: AtomicU32::new(0),
            rung: AtomicU32::new(0),
            fencing: AtomicU32::new(BY_RINGER),
        }
    }

    /// Returns the sleeping threads and ready lists that the notifier must wake. Call it after publishing the event.
    #[inline]
    pub fn look(&self) -> Option<Listeners> {
        fence(Ordering::SeqCst);
        self.listeners()
    }

    /// Like [`Bell::look`], but without the fence: the caller has executed the fence, or relies on the sleepers' fence.
    #[inline(always)]
    pub(crate) fn listeners(&self) -> Option<Listeners> {
        let (who, rung) = (self.who.load(Ordering::Relaxed), self.rung.load(Ordering::Relaxed));
        if who == u64::from(rung) {
            return None;
        }
        point(At::Waking);
        Some(Listeners { sleepers: who as u32 != rung, ready_lists: (who >> 32) as u32 })
    }

    /// Leaves the notifier's fence to the sleepers. Returns false if the kernel has refused such a fence before. The
    /// notifier's later looks are ordered after this call.
    pub(crate) fn leave_fence_to_sleepers(&self) -> bool {
        let (from, to) = (BY_RINGER, BY_SLEEPER);
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let found = self.fencing.compare_exchange(from, to, success, failure);
        // SYNC: pairs with the fence in `announced`, in a thread that announces its sleep.
        fence(Ordering::SeqCst);
        // The word may be `BY_SLEEPER` already: a thread may have stored it and died before it recorded the change.
        matches!(found, Ok(_) | Err(BY_SLEEPER))
    }

    /// Returns true while the notifier's fence is left to the sleepers.
    #[inline(always)]
    pub(crate) fn is_fence_left(&self) -> bool {
        self.fencing.load(Ordering::Relaxed) == BY_SLEEPER
    }

    /// Makes the notifier execute the fence again, from its next look on.
    pub(crate) fn take_fence_back(&self) {
        let (from, to) = (BY_SLEEPER, BY_RINGER);
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = self.fencing.compare_exchange(from, to, success, failure);
    }

    /// Orders the calling thread's announcement (of a sleep or of a ready list) before its next look. The notifier then
    /// wakes this thread for each event published from here on, and this thread sees each earlier event.
    fn announced(&self) {
        // SYNC: pairs with the notifier's fence in `look` or in `leave_fence_to_sleepers`.
        fence(Ordering::SeqCst);
        if self.fencing.load(Ordering::Relaxed) == BY_SLEEPER {
            self.fence_ringer();
        }
    }

    #[cold]
    #[inline(never)]
    fn fence_ringer(&self) {
        // SYNC: pairs with `light` in the notifier.
        if !fences::heavy(Reach::Host) {
            self.fencing.store(REFUSED, Ordering::SeqCst);
            let end = clock::now_ns() + WITHOUT_FENCE_NS;
            while clock::now_ns() < end {
                call::sched_yield();
            }
        }
    }

    /// Returns the futex word to sleep on. Load its value before the last look for events.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Announces a sleep. The caller then looks for events once more. The caller sleeps on the value of [`Bell::word`]
    /// that it loaded before this call.
    pub fn going_to_sleep(&self) {
        // Add to the low half only: a wrap-around of the count must not change the ready lists' bits.
        let next = |who: u64| who & !u64::from(u32::MAX) | u64::from((who as u32).wrapping_add(1));
        let _ = self.who.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |who| Some(next(who)));
        self.announced();
        point(At::Sleeping);
    }

    /// Wakes the threads that sleep on the futex word; `wake` makes the kernel's call.
    pub(crate) fn wake_by(&self, wake: impl FnOnce()) {
        // SYNC: load `who`, change `word`, wake, then store `rung`, all SeqCst. A thread counted here loaded the word
        // before its announcement. So either it sees the changed word, or it sleeps and `wake` wakes it. Only then is
        // its sleep over.
        let announced = self.who.load(Ordering::SeqCst) as u32;
        self.ring();
        wake();
        self.rung.store(announced, Ordering::SeqCst);
    }

    /// Wakes the threads that sleep on the futex word. Call it after publishing the event.
    #[cfg(not(loom))]
    pub fn wake(&self) {
        self.wake_by(|| {
            sovia_sys::futex::wake(&self.word, u32::MAX >> 1);
        });
    }

    /// Like `wake` outside loom; the argument replaces the kernel's call.
    #[cfg(loom)]
    pub fn wake(&self, wake: impl FnOnce()) {
        self.wake_by(wake);
    }

    /// Records the time. Call it just before setting the VI's bit in a ready list.
    #[cfg(not(loom))]
    #[inline]
    pub fn note_mark(&self) {
        self.marked.store(clock::ticks(), Ordering::Relaxed);
    }

    /// Returns the time, in [`clock::ticks`], of the last [`Bell::note_mark`]. The notifier wrote this value, so use it
    /// only to order events.
    #[cfg(not(loom))]
    #[inline]
    pub fn marked(&self) -> u64 {
        self.marked.load(Ordering::Relaxed)
    }

    /// Returns the ready lists that watch this direction, a bit for each.
    pub fn watchers(&self) -> u32 {
        (self.who.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Changes the futex word. Threads that spin look at this word.
    pub fn ring(&self) {
        self.word.fetch_add(1, Ordering::SeqCst);
    }

    /// Adds ready list `index` to those that the notifier notifies.
    pub fn watch(&self, index: u32) {
        self.who.fetch_or(1 << (32 + (index & 31)), Ordering::SeqCst);
        self.announced();
    }

    /// Removes ready list `index` from those that the notifier notifies.
    pub fn unwatch(&self, index: u32) {
        self.who.fetch_and(!(1 << (32 + (index & 31))), Ordering::SeqCst);
    }

    /// Removes all sleepers and ready lists, for the VI's next generation.
    pub fn clear(&self) {
        self.who.store(0, Ordering::SeqCst);
        self.rung.store(0, Ordering::SeqCst);
        self.fencing.store(BY_RINGER, Ordering::SeqCst);
    }
}

/// Notifies the waiters of `bell`. Wakes sleeping threads, and calls `ring` with a bitmap (never 0) of the ready lists
/// to notify. Call it after publishing the event.
#[cfg(not(loom))]
#[inline]
pub fn tell(bell: &Bell, ring: impl FnOnce(u32)) {
    tell_found(bell, bell.look(), ring);
}

/// Like [`tell`], for waiters that the caller has already looked up.
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

/// A bitmap of VIs with events, for an owner that waits for many VIs.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ReadyList {
    /// Nonzero while the owner sleeps: on its doorbell ([`ASLEEP`]) or on this word (`ASLEEP_ON_WORD`).
    sleeping: AtomicU32,
    /// Number of the doorbell that wakes the owner.
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
    /// Returns an awake ready list without events.
    #[cfg(loom)]
    pub fn new() -> ReadyList {
        ReadyList {
            sleeping: AtomicU32::new(AWAKE),
            doorbell: AtomicU32::new(0),
            summary: AtomicU64::new(0),
            ready: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Sets the bit of `vi`, on behalf of the notifier. Returns the number of the doorbell to ring, if the owner
    /// sleeps. The caller must have published the event before, and executed [`Bell::look`]'s fence.
    #[inline]
    pub fn notify(&self, vi: u32) -> Option<u32> {
        self.notify_after(vi, || {})
    }

    /// Like [`ReadyList::notify`], but calls `first` before it sets a bit that is not yet set.
    #[inline]
    pub fn notify_after(&self, vi: u32, first: impl FnOnce()) -> Option<u32> {
        let word = (vi / 64) as usize % WORDS;
        let bit = 1u64 << (vi % 64);
        // If the bit is set, the owner has yet to clear the bit and looks at the VI afterwards. The fence in `look`
        // ensures that the owner then sees the event.
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

    /// Marks the owner awake. Only the first of several notifiers continues: it wakes the futex, or returns the
    /// doorbell to ring.
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

    /// Returns true if a VI may have an event, by one load.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.summary.load(Ordering::Relaxed) != 0
    }

    /// Clears all bits and calls `each` with the number of each VI, so that `each` looks at the VI.
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
        // Orders the clearing of the bits before the caller's looks at the VIs.
        fence(Ordering::SeqCst);
    }

    /// Announces that the owner sleeps. The caller must call [`ReadyList::has_news`] once more before it sleeps.
    pub fn going_to_sleep(&self) {
        self.sleeping.store(ASLEEP, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        point(At::Sleeping);
    }

    /// Like [`ReadyList::going_to_sleep`], for a thread that sleeps on [`ReadyList::sleep_word`] and not on a doorbell.
    /// Returns the word's value until the next notification.
    #[cfg(not(loom))]
    pub fn going_to_sleep_on_word(&self) -> u32 {
        self.sleeping.store(ASLEEP_ON_WORD, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        point(At::Sleeping);
        ASLEEP_ON_WORD
    }

    /// Returns the futex word that a notifier changes.
    #[cfg(not(loom))]
    pub fn sleep_word(&self) -> &AtomicU32 {
        &self.sleeping
    }

    /// Stores which doorbell wakes the owner, if it has changed. Call it before a sleep: a ring of another doorbell
    /// would be lost.
    pub fn rung_by(&self, doorbell: u32) {
        if self.doorbell.load(Ordering::Relaxed) != doorbell {
            self.doorbell.store(doorbell, Ordering::SeqCst);
        }
    }

    /// Recomputes the summary from the bits. `drain` would not find a bit that is missing in the summary, and notifiers
    /// would not set the bit again.
    pub fn summarise(&self) {
        for (i, word) in self.ready.iter().enumerate() {
            if word.load(Ordering::SeqCst) != 0 {
                self.summary.fetch_or(1 << i, Ordering::SeqCst);
            }
        }
    }

    /// Takes the announced sleep back.
    #[inline]
    pub fn awake(&self) {
        if self.sleeping.load(Ordering::Relaxed) != AWAKE {
            self.sleeping.store(AWAKE, Ordering::SeqCst);
        }
    }

    /// Resets the ready list: awake, no events, woken by `doorbell`.
    pub fn reset(&self, doorbell: u32) {
        self.sleeping.store(AWAKE, Ordering::SeqCst);
        self.doorbell.store(doorbell, Ordering::SeqCst);
        self.summary.store(0, Ordering::SeqCst);
        for word in &self.ready {
            word.store(0, Ordering::SeqCst);
        }
    }
}
