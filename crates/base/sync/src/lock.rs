//! A lock that survives its owner's death.
//!
//! The word holds its owner's record ([`crate::record`]), so a thread that waits sees whether the owner
//! lives: it spins for a moment, then sleeps in steps, and looks at each of them. A dead owner's lock is
//! taken over, and the new owner is told to repair what the lock guards.
//!
//! Taking the lock is one atomic exchange; giving it back is a store, and a look whether a thread sleeps
//! ([`crate::fences`]: giving back is frequent and sleeping is rare). So the lock is still looked at by the
//! thread that has just given it back: it lies in memory that outlives the call.
//!
//! A thread is in a section ([`crate::section`]) while it holds a lock, so no signal handler of the
//! program runs meanwhile and finds the lock held by its own thread. One that does find that is told.

use crate::fences;
use crate::owners::{Local, Owners};
use crate::shim::{AtomicU32, Ordering, SPINS, fence, now_ns, sleep_on, spin_loop, wake_some};
use crate::state::{self, State};
use crate::{rank, section};
use core::marker::PhantomData;
use sovia_sys::stall::{At, point};

/// In the count of wake-ups: a thread sleeps, or is about to.
const SLEEPER: u32 = 1;

/// How long a waiter sleeps until it looks whether the owner lives: nothing but the time that a death takes to
/// be noticed depends on it.
pub(crate) const STEP_NS: u64 = 2_000_000;

/// Returns the time until which a thread waits that waits for so many nanoseconds; 0 for one that does not wait.
pub(crate) fn deadline(ns: u64) -> u64 {
    if ns == 0 { 0 } else { now_ns().saturating_add(ns) }
}

/// How a lock was come by.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Acquired {
    /// The state is as its last owner left it on purpose.
    Clean,
    /// The last owner died in the middle: repair the state first.
    FromTheDead,
    /// Not at all: the calling thread owns it already, further up its stack or in a call that a signal
    /// handler has left by `longjmp`. What the lock guards may be half changed, and the lock is not to be
    /// given back for this.
    Reentered,
}

impl Acquired {
    /// Whether the lock is to be given back.
    pub fn is_held(self) -> bool {
        self != Acquired::Reentered
    }
}

/// A lock that is waited for without a limit has not been taken.
#[cold]
pub(crate) fn never_taken() -> ! {
    unreachable!("a lock is waited for until it is taken")
}

/// A lock with a place in the order of locks ([`rank`]). All-zero memory is an unlocked lock.
#[derive(Debug)]
#[repr(C)]
pub struct RobustLock<K = Local, const RANK: u8 = { rank::NONE }> {
    /// The owner's word; 0: no thread holds it.
    owner: AtomicU32,
    /// How many wake-ups there have been, times two, and [`SLEEPER`]. Sleepers sleep on it.
    wakes: AtomicU32,
    owners: PhantomData<K>,
}

impl<K: Owners, const RANK: u8> Default for RobustLock<K, RANK> {
    fn default() -> Self {
        RobustLock::new()
    }
}

impl<K: Owners, const RANK: u8> RobustLock<K, RANK> {
    /// An unlocked lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        RobustLock { owner: AtomicU32::new(0), wakes: AtomicU32::new(0), owners: PhantomData }
    }

    /// An unlocked lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        RobustLock { owner: AtomicU32::new(0), wakes: AtomicU32::new(0), owners: PhantomData }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> Acquired {
        state::current(|state| {
            section::enter_on(state);
            let Some(acquired) = self.acquire(state, K::me(state), None) else { never_taken() };
            if acquired.is_held() {
                rank::taken_on(state, RANK);
            }
            acquired
        })
    }

    /// Like [`RobustLock::lock`], but waits for so many nanoseconds at most; `None` if others hold it
    /// for longer.
    pub fn lock_within(&self, ns: u64) -> Option<Acquired> {
        state::current(|state| {
            section::enter_on(state);
            let me = K::me(state);
            let acquired = if self.takes(me) {
                Some(Acquired::Clean)
            } else {
                self.lock_slow(state, me, Some(deadline(ns)))
            };
            if acquired.is_some_and(Acquired::is_held) {
                rank::taken_within_on(state, RANK, ns);
            }
            acquired
        })
    }

    /// Takes the lock if no thread holds it.
    #[inline]
    pub fn try_lock(&self) -> bool {
        state::current(|state| {
            section::enter_on(state);
            let taken = self.takes(K::me(state));
            if taken {
                rank::added_on(state, RANK);
            } else {
                section::leave_on(state);
            }
            taken
        })
    }

    /// Begins in a section and ends in one if the lock has been taken, by `until` at the latest.
    #[inline(always)]
    pub(crate) fn acquire(&self, state: &State, me: u32, until: Option<u64>) -> Option<Acquired> {
        if self.takes(me) { Some(Acquired::Clean) } else { self.lock_slow(state, me, until) }
    }

    #[inline(always)]
    pub(crate) fn takes(&self, me: u32) -> bool {
        // SYNC: pairs with the store in `unlock`: what the last owner wrote is visible.
        let taken =
            self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        point(At::Locked);
        taken
    }

    /// Gives the lock back.
    #[inline]
    pub fn unlock(&self) {
        debug_assert!(self.is_mine(), "a lock is given back by the thread that holds it");
        point(At::Unlocking);
        rank::given_back(RANK);
        self.give_back();
        section::leave();
    }

    #[inline(always)]
    pub(crate) fn give_back(&self) {
        // SYNC: pairs with the exchange that takes the lock next.
        self.owner.store(0, Ordering::Release);
        self.given_back(1);
    }

    /// Looks whether a thread sleeps for the lock, which has just been given back, and wakes so many.
    #[inline(always)]
    pub(crate) fn given_back(&self, sleepers: u32) {
        point(At::Unlocked);
        // SYNC: with `sleep_while`: a thread about to sleep finds the lock free, or is seen here.
        fences::light();
        let wakes = self.wakes.load(Ordering::Relaxed);
        if wakes & SLEEPER != 0 {
            self.wake(wakes, sleepers);
        }
    }

    /// Wakes so many of the threads that sleep. A woken thread sets [`SLEEPER`] again, for the others.
    #[cold]
    #[inline(never)]
    fn wake(&self, seen: u32, sleepers: u32) {
        let next = seen.wrapping_add(1);
        // If it has changed, another thread has woken one, which is enough.
        if self.wakes.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            wake_some(&self.wakes, sleepers);
        }
    }

    /// Takes the lock until the result's scope ends.
    pub fn guard(&self) -> Held<'_, K, RANK> {
        Held { lock: self, acquired: self.lock() }
    }

    /// Takes the lock for the time of a fork, as one of those of its rank.
    pub fn hold(&self) {
        rank::given_back(RANK);
        let acquired = self.lock();
        debug_assert!(acquired.is_held(), "a fork inside a section");
    }

    /// After the fork, in both. Nothing if [`RobustLock::hold`] was not called.
    pub fn release(&self) {
        if self.is_mine() {
            self.unlock();
        }
    }

    /// Whether the calling thread holds the lock: it is in a signal handler that has interrupted the
    /// critical section, or has left that by `longjmp`.
    #[inline]
    pub fn is_mine(&self) -> bool {
        state::current(|state| self.owner.load(Ordering::Relaxed) == K::me(state))
    }

    /// Whether a thread holds the lock just now.
    pub fn is_locked(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != 0
    }

    /// Begins in a section and ends in one if the lock has been taken.
    #[cold]
    fn lock_slow(&self, state: &State, me: u32, until: Option<u64>) -> Option<Acquired> {
        let mut spins = 0;
        let mut slept = false;
        let result = loop {
            let held = self.owner.load(Ordering::Relaxed);
            if held == 0 {
                // SYNC: as in `takes`.
                if self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    break Some(Acquired::Clean);
                }
                continue;
            }
            if held == me {
                section::leave_on(state);
                return Some(Acquired::Reentered);
            }
            if spins < SPINS {
                spins += 1;
                spin_loop();
                continue;
            }
            // SYNC: with the fence after a record is taken: the owner's is at least as new as the word.
            fence(Ordering::Acquire);
            if !K::lives(held) {
                // SYNC: what the dead owner wrote became visible with its record's end (`lives`); what a
                // living thread wrote that had the lock since, with this exchange's failure.
                let taken =
                    self.owner.compare_exchange(held, me, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    break Some(Acquired::FromTheDead);
                }
                continue;
            }
            let left = match until.map(|until| until.saturating_sub(now_ns())) {
                Some(0) => {
                    section::leave_on(state);
                    break None;
                }
                left => left.unwrap_or(STEP_NS).min(STEP_NS),
            };
            // Signal handlers may run meanwhile, unless the thread holds another lock.
            section::leave_on(state);
            self.sleep_while(left, || self.owner.load(Ordering::Relaxed) == held);
            section::enter_on(state);
            slept = true;
        };
        // The thread may have been woken, or have followed a dead owner, and others sleep on.
        if slept || result == Some(Acquired::FromTheDead) {
            self.sleepers_go_on();
        }
        result
    }

    /// Others may sleep on after the wake-up by which the calling thread has come here.
    pub(crate) fn sleepers_go_on(&self) {
        self.wakes.fetch_or(SLEEPER, Ordering::Relaxed);
    }

    /// Sleeps while it is held, for so many nanoseconds at most.
    pub(crate) fn sleep_while(&self, ns: u64, is_held: impl FnOnce() -> bool) {
        let wakes = self.wakes.fetch_or(SLEEPER, Ordering::SeqCst) | SLEEPER;
        // SYNC: with `unlock`. Without a fence in the other threads a wake-up may be missed; the sleep has an end.
        fences::heavy_if_known(K::REACH);
        if is_held() {
            sleep_on(&self.wakes, wakes, ns);
        }
    }
}

/// A lock that is given back when this is dropped, unless it was held before already.
#[derive(Debug)]
pub struct Held<'a, K: Owners = Local, const RANK: u8 = { rank::NONE }> {
    lock: &'a RobustLock<K, RANK>,
    acquired: Acquired,
}

impl<K: Owners, const RANK: u8> Held<'_, K, RANK> {
    /// How it was come by.
    pub fn acquired(&self) -> Acquired {
        self.acquired
    }
}

impl<K: Owners, const RANK: u8> Drop for Held<'_, K, RANK> {
    #[inline]
    fn drop(&mut self) {
        if self.acquired.is_held() {
            self.lock.unlock();
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "lock_tests.rs"]
mod tests;
