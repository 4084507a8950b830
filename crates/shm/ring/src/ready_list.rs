//! Waiting for events in a direction of a VI: which threads and ready lists wait, and how a notifier wakes the
//! waiting threads.
//!
//! There are two kinds of waiting. A thread that waits for one VI sleeps on the futex word of that direction
//! ([`WakeWord`]). An epoll instance, or a call of poll or select, waits for many VIs by a [`ReadyList`]. A ready list
//! is a bitmap of VIs with events, and a flag that is set while the list's owner sleeps. So the cost of finding
//! events grows with the number of ready VIs, not with the number of watched VIs.
//!
//! One protocol prevents missed wake-ups for both kinds of waiting. The sleeper stores an announcement of its
//! sleep, executes a full fence, looks for events once more, and sleeps. The notifier stores the event, executes a
//! full fence, and loads the announcement. So the sleeper sees the event, or the notifier sees the announcement.
//! (`tests/loom` checks this protocol. It also checks that the protocol fails without the fences.) A notifier that
//! has found no sleeper for a long time leaves its fence to the sleepers ([`crate::quiet`]).

use crate::sync::{At, AtomicU32, AtomicU64, Ordering, fence, point};
use sovia_sync::fences::{self, Reach};
use sovia_sys::{call, clock};

/// Number of VIs that one ready list can watch: all VIs of a segment.
pub const VIS: u32 = 1024;
const WORDS: usize = (VIS / 64) as usize;

/// The threads and ready lists that a notifier wakes after an event in a direction. Other threads write to these
/// words only when they begin or end a wait. So the words normally stay in the notifier's cache.
///
/// An announced sleep counts until a notifier wakes the sleepers. The sleeping thread itself never takes its
/// announcement back. It may die while it sleeps, be cancelled, or announce its sleep after the VI's next
/// connection has begun. Each of these cases causes one unneeded wake-up, and never a missed one.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct WakeWord {
    /// Low half: number of announced sleeps on `word`. High half: a bit for each ready list of the waiting side that
    /// watches this direction.
    who: AtomicU64,
    /// Futex word. Changed at each wake-up.
    word: AtomicU32,
    /// Number of announced sleeps that a notifier has ended. No thread sleeps while the low half of `who` has this
    /// value.
    ended: AtomicU32,
    /// Says whether the notifier or a sleeper executes the notifier's fence: [`BY_NOTIFIER`], [`BY_SLEEPER`] or
    /// [`REFUSED`].
    fencing: AtomicU32,
    /// Time, in [`clock::ticks`], when a notifier last set the VI's bit in a ready list.
    #[cfg(not(loom))]
    marked: AtomicU64,
}

/// The notifier executes the fence.
const BY_NOTIFIER: u32 = 0;
/// A thread that announces a sleep makes the kernel execute the fence in the notifier's thread.
const BY_SLEEPER: u32 = 1;
/// The notifier always executes the fence, because the kernel has refused to execute it for a sleeper.
const REFUSED: u32 = 2;
/// Time in nanoseconds that a thread waits if the kernel refuses the fence. After this time, the earlier stores of
/// the notifier have reached memory, and the notifier's later looks see the thread's announcement.
const WITHOUT_FENCE_NS: u64 = 20_000_000;

/// Sleeping threads and ready lists that [`WakeWord::look`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listeners {
    /// Set if threads sleep on the futex word.
    pub sleepers: bool,
    /// Bitmap of the ready lists to notify.
    pub ready_lists: u32,
}

impl WakeWord {
    /// Returns a `WakeWord` without sleepers and ready lists.
    #[cfg(loom)]
    pub fn new() -> WakeWord {
        WakeWord {
            who: AtomicU64::new(0),
            word: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            fencing: AtomicU32::new(BY_NOTIFIER),
        }
    }

    /// Returns the sleeping threads and ready lists that the notifier must wake. Call it after publishing the event.
    #[inline]
    pub fn look(&self) -> Option<Listeners> {
        fence(Ordering::SeqCst);
        self.listeners()
    }

    /// Like [`WakeWord::look`], but without the fence: the caller has executed the fence, or relies on the sleepers'
    /// fence.
    #[inline(always)]
    pub(crate) fn listeners(&self) -> Option<Listeners> {
        let (who, ended) = (self.who.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed));
        if who == u64::from(ended) {
            return None;
        }
        point(At::Waking);
        Some(Listeners { sleepers: who as u32 != ended, ready_lists: (who >> 32) as u32 })
    }

    /// Leaves the notifier's fence to the sleepers. Returns false if the kernel has refused such a fence before.
    /// Executes one last fence after the change.
    pub(crate) fn leave_fence_to_sleepers(&self) -> bool {
        let (from, to) = (BY_NOTIFIER, BY_SLEEPER);
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let found = self.fencing.compare_exchange(from, to, success, failure);
        // SYNC: pairs with the fence in `announced`, in a thread that announces its sleep.
        fence(Ordering::SeqCst);
        // `fencing` is already `BY_SLEEPER` if a thread stored this value and died before its `Quiet` recorded the
        // change.
        matches!(found, Ok(_) | Err(BY_SLEEPER))
    }

    /// Returns true while the notifier's fence is left to the sleepers.
    #[inline(always)]
    pub(crate) fn is_fence_left(&self) -> bool {
        self.fencing.load(Ordering::Relaxed) == BY_SLEEPER
    }

    /// Makes the notifier execute the fence again, from its next look on.
    pub(crate) fn take_fence_back(&self) {
        let (from, to) = (BY_SLEEPER, BY_NOTIFIER);
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = self.fencing.compare_exchange(from, to, success, failure);
    }

    /// Executes the fence between the calling thread's announcement (of a sleep or of a ready list) and its next
    /// look for events. That look sees each event that was published before this call. The notifier of each later
    /// event sees the announcement.
    fn announced(&self) {
        // SYNC: pairs with the notifier's fence in `look` or in `leave_fence_to_sleepers`.
        fence(Ordering::SeqCst);
        if self.fencing.load(Ordering::Relaxed) == BY_SLEEPER {
            self.fence_notifier();
        }
    }

    #[cold]
    #[inline(never)]
    fn fence_notifier(&self) {
        // SYNC: pairs with `fences::light` in the notifier.
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

    /// Announces a sleep. The caller must load [`WakeWord::word`] before this call, and look for events once more after
    /// it. If the look finds no event, the caller sleeps while the word has the loaded value.
    pub fn going_to_sleep(&self) {
        // Add to the low half only: a wrap-around of the count must not change the bits of the ready lists in the
        // high half.
        let next = |who: u64| who & !u64::from(u32::MAX) | u64::from((who as u32).wrapping_add(1));
        let _ = self.who.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |who| Some(next(who)));
        self.announced();
        point(At::Sleeping);
    }

    /// Wakes the threads that sleep on the futex word; `wake` makes the system call.
    pub(crate) fn wake_by(&self, wake: impl FnOnce()) {
        // SYNC: the order is: load `who`, change `word`, wake, store `ended`. All accesses are SeqCst. Each thread
        // that `announced` counts has loaded the word before it announced its sleep. So the thread finds the word
        // changed and does not sleep, or `wake` wakes it. Only after that does `ended` count its sleep as over.
        let announced = self.who.load(Ordering::SeqCst) as u32;
        self.ring();
        wake();
        self.ended.store(announced, Ordering::SeqCst);
    }

    /// Wakes the threads that sleep on the futex word. Call it after publishing the event.
    #[cfg(not(loom))]
    pub fn wake(&self) {
        self.wake_by(|| {
            sovia_sys::futex::wake(&self.word, u32::MAX >> 1);
        });
    }

    /// Like `wake` outside loom; the argument replaces the system call.
    #[cfg(loom)]
    pub fn wake(&self, wake: impl FnOnce()) {
        self.wake_by(wake);
    }

    /// Stores the current time in `marked`. Call it just before setting the VI's bit in a ready list.
    #[cfg(not(loom))]
    #[inline]
    pub fn note_mark(&self) {
        self.marked.store(clock::ticks(), Ordering::Relaxed);
    }

    /// Returns the time, in [`clock::ticks`], of the last [`WakeWord::note_mark`]. A faulty notifier may have stored
    /// any value, so use the time only to order events.
    #[cfg(not(loom))]
    #[inline]
    pub fn marked(&self) -> u64 {
        self.marked.load(Ordering::Relaxed)
    }

    /// Returns a bitmap of the ready lists that watch this direction.
    pub fn watchers(&self) -> u32 {
        (self.who.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Changes the futex word, for threads that spin on it. Wakes no sleeping thread.
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

    /// Removes all sleepers and ready lists before the VI's next generation.
    pub fn clear(&self) {
        self.who.store(0, Ordering::SeqCst);
        self.ended.store(0, Ordering::SeqCst);
        self.fencing.store(BY_NOTIFIER, Ordering::SeqCst);
    }
}

/// Wakes the threads that sleep on `wake_word`. If ready lists watch the direction, calls `ring` with a bitmap of them.
/// Call this function after publishing the event.
#[cfg(not(loom))]
#[inline]
pub fn notify(wake_word: &WakeWord, ring: impl FnOnce(u32)) {
    notify_found(wake_word, wake_word.look(), ring);
}

/// Like [`notify`], for sleeping threads and ready lists that the caller has already found by [`WakeWord::look`].
#[cfg(not(loom))]
#[inline(always)]
pub fn notify_found(wake_word: &WakeWord, found: Option<Listeners>, ring: impl FnOnce(u32)) {
    if let Some(listeners) = found {
        if listeners.sleepers {
            wake_word.wake();
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

    /// Sets the bit of `vi`. If the owner sleeps on a doorbell, returns the number of the doorbell to ring. If the
    /// owner sleeps on the list's futex word, wakes the owner. Before this call, the notifier must publish the
    /// event and execute the fence of [`WakeWord::look`].
    #[inline]
    pub fn notify(&self, vi: u32) -> Option<u32> {
        self.notify_after(vi, || {})
    }

    /// Like [`ReadyList::notify`], but calls `first` before it sets a bit that is not yet set.
    #[inline]
    pub fn notify_after(&self, vi: u32, first: impl FnOnce()) -> Option<u32> {
        let word = (vi / 64) as usize % WORDS;
        let bit = 1u64 << (vi % 64);
        // If the bit is already set, the owner will clear the bit and then look at the VI. The fence in
        // `WakeWord::look` ensures that this look sees the event.
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

    /// Marks the owner awake. If several notifiers call this function, only the first one wakes the futex or
    /// returns the doorbell to ring.
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

    /// Returns true if a VI may have an event. Costs one load.
    #[inline]
    pub fn has_events(&self) -> bool {
        self.summary.load(Ordering::Relaxed) != 0
    }

    /// Clears all bits. Calls `each` with the number of each VI whose bit was set.
    #[inline]
    pub fn drain(&self, mut each: impl FnMut(u32)) {
        if !self.has_events() {
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

    /// Announces that the owner sleeps. The caller must call [`ReadyList::has_events`] once more before it sleeps.
    pub fn going_to_sleep(&self) {
        self.sleeping.store(ASLEEP, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        point(At::Sleeping);
    }

    /// Like [`ReadyList::going_to_sleep`], for a thread that sleeps on [`ReadyList::sleep_word`] and not on a
    /// doorbell. Returns the value that the word keeps until the next notification.
    #[cfg(not(loom))]
    pub fn going_to_sleep_on_word(&self) -> u32 {
        self.sleeping.store(ASLEEP_ON_WORD, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        point(At::Sleeping);
        ASLEEP_ON_WORD
    }

    /// Returns the futex word on which the owner may sleep. A notifier changes this word.
    #[cfg(not(loom))]
    pub fn sleep_word(&self) -> &AtomicU32 {
        &self.sleeping
    }

    /// Stores the number of the doorbell that wakes the owner. Call it before a sleep, because a notifier rings
    /// only the doorbell with the stored number.
    pub fn rung_by(&self, doorbell: u32) {
        if self.doorbell.load(Ordering::Relaxed) != doorbell {
            self.doorbell.store(doorbell, Ordering::SeqCst);
        }
    }

    /// Adds to the summary each word that has bits, in case another process has overwritten the summary. `drain`
    /// ignores a word that is missing in the summary, and a notifier does not set a bit again that is already set.
    pub fn summarise(&self) {
        for (i, word) in self.ready.iter().enumerate() {
            if word.load(Ordering::SeqCst) != 0 {
                self.summary.fetch_or(1 << i, Ordering::SeqCst);
            }
        }
    }

    /// Marks the owner awake, after an announced sleep.
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
