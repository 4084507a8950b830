//! A lock that survives its owner's death.
//!
//! The lock word names the owner's robust-list entry ([`crate::robust_entry`]), so a waiting thread sees whether the
//! owner lives. A waiting thread spins for a moment and then sleeps in steps. It checks the owner at each step. A
//! thread that takes over the lock of a dead owner learns that it must repair what the lock guards.
//!
//! A thread takes the lock by one atomic exchange. The owner releases the lock by a store, and then reads whether
//! another thread sleeps ([`crate::fences`]: releasing is frequent and sleeping is rare). So a thread still reads
//! the lock after it has released the lock. The lock must lie in memory that outlives the call.
//!
//! A thread is in a critical section ([`crate::critical_section`]) while it holds a lock. So no signal handler of the
//! program runs meanwhile and finds the lock held by its own thread. If a handler does find this, it gets
//! [`Acquired::Reentered`].

use crate::fences;
use crate::owners::{Local, Owners};
use crate::shim::{AtomicU32, Ordering, SPINS, fence, now_ns, sleep_on, spin_loop, wake_some};
use crate::state::{self, State};
use crate::{critical_section, rank};
use core::marker::PhantomData;
use sovia_sys::stall::{At, point};

/// Set in `wakes` while a thread sleeps or is about to sleep.
const SLEEPER: u32 = 1;

/// Nanoseconds that a waiting thread sleeps before it checks the owner again. Only the time until a death is
/// noticed depends on this number.
pub(crate) const STEP_NS: u64 = 2_000_000;

/// Returns the time at which a wait of `ns` nanoseconds ends; 0 if `ns` is 0, for no wait.
pub(crate) fn deadline(ns: u64) -> u64 {
    if ns == 0 { 0 } else { now_ns().saturating_add(ns) }
}

/// Result of an attempt to take a lock.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Acquired {
    /// Taken. The guarded state is as the last owner left it on purpose.
    Clean,
    /// Taken from an owner that died in the critical section: repair the guarded state first.
    FromTheDead,
    /// Not taken: the calling thread already owns the lock. A function further up the stack has taken the lock,
    /// or a call that a signal handler has left by `longjmp`. The guarded state may be half changed. Do not
    /// release the lock for this attempt.
    Reentered,
}

impl Acquired {
    /// Returns true if the caller must release the lock.
    pub fn is_held(self) -> bool {
        self != Acquired::Reentered
    }
}

/// Panics. Called if a wait without a limit ends without the lock.
#[cold]
pub(crate) fn never_taken() -> ! {
    unreachable!("a lock is waited for until it is taken")
}

/// A lock with a rank in the order of locks ([`rank`]). All-zero memory is an unlocked lock.
#[derive(Debug)]
#[repr(C)]
pub struct RobustLock<K = Local, const RANK: u8 = { rank::NONE }> {
    /// The owner word; 0 if no thread holds the lock.
    owner: AtomicU32,
    /// Twice the number of wake-ups, and [`SLEEPER`] in the lowest bit. Waiting threads sleep on this word.
    wakes: AtomicU32,
    owners: PhantomData<K>,
}

impl<K: Owners, const RANK: u8> Default for RobustLock<K, RANK> {
    fn default() -> Self {
        RobustLock::new()
    }
}

impl<K: Owners, const RANK: u8> RobustLock<K, RANK> {
    /// Returns an unlocked lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        RobustLock { owner: AtomicU32::new(0), wakes: AtomicU32::new(0), owners: PhantomData }
    }

    /// Returns an unlocked lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        RobustLock { owner: AtomicU32::new(0), wakes: AtomicU32::new(0), owners: PhantomData }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> Acquired {
        state::current(|state| {
            critical_section::enter_on(state);
            let Some(acquired) = self.acquire(state, K::me(state), None) else { never_taken() };
            if acquired.is_held() {
                rank::taken_on(state, RANK);
            }
            acquired
        })
    }

    /// Like [`RobustLock::lock`], but waits at most `ns` nanoseconds. Returns `None` if another thread holds the
    /// lock for longer.
    pub fn lock_within(&self, ns: u64) -> Option<Acquired> {
        state::current(|state| {
            critical_section::enter_on(state);
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
            critical_section::enter_on(state);
            let taken = self.takes(K::me(state));
            if taken {
                rank::added_on(state, RANK);
            } else {
                critical_section::leave_on(state);
            }
            taken
        })
    }

    /// Takes the lock, by time `until` at the latest. The caller is in a critical section. On return the thread
    /// is in that section only if it has taken the lock.
    #[inline(always)]
    pub(crate) fn acquire(&self, state: &State, me: u32, until: Option<u64>) -> Option<Acquired> {
        if self.takes(me) { Some(Acquired::Clean) } else { self.lock_slow(state, me, until) }
    }

    #[inline(always)]
    pub(crate) fn takes(&self, me: u32) -> bool {
        // SYNC: pairs with the store in `give_back`, so the last owner's stores are visible.
        let taken =
            self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        point(At::Locked);
        taken
    }

    /// Releases the lock.
    #[inline]
    pub fn unlock(&self) {
        debug_assert!(self.is_mine(), "a lock is given back by the thread that holds it");
        point(At::Unlocking);
        rank::given_back(RANK);
        self.give_back();
        critical_section::leave();
    }

    #[inline(always)]
    pub(crate) fn give_back(&self) {
        // SYNC: pairs with the exchange by which the next owner takes the lock.
        self.owner.store(0, Ordering::Release);
        self.given_back(1);
    }

    /// Wakes up to `sleepers` threads that sleep for the lock. The caller has just released the lock.
    #[inline(always)]
    pub(crate) fn given_back(&self, sleepers: u32) {
        point(At::Unlocked);
        // SYNC: pairs with the fence in `sleep_while`: a thread that is about to sleep finds the lock free, or
        // this thread sees `SLEEPER`.
        fences::light();
        let wakes = self.wakes.load(Ordering::Relaxed);
        if wakes & SLEEPER != 0 {
            self.wake(wakes, sleepers);
        }
    }

    /// Wakes up to `sleepers` sleeping threads. A woken thread sets [`SLEEPER`] again, for the others.
    #[cold]
    #[inline(never)]
    fn wake(&self, seen: u32, sleepers: u32) {
        let next = seen.wrapping_add(1);
        // If the count has changed, another thread has woken a sleeper, which is enough.
        if self.wakes.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            wake_some(&self.wakes, sleepers);
        }
    }

    /// Takes the lock. The returned guard releases it.
    pub fn guard(&self) -> Held<'_, K, RANK> {
        Held { lock: self, acquired: self.lock() }
    }

    /// Takes the lock for the time of a fork, together with other locks of the same rank.
    pub fn hold(&self) {
        rank::given_back(RANK);
        let acquired = self.lock();
        debug_assert!(acquired.is_held(), "a fork inside a section");
    }

    /// Releases the lock after a fork, in parent and child. Does nothing if [`RobustLock::hold`] was not called.
    pub fn release(&self) {
        if self.is_mine() {
            self.unlock();
        }
    }

    /// Returns true if the calling thread holds the lock. A caller in a signal handler may have interrupted the
    /// critical section. A caller may also have left the section by `longjmp`.
    #[inline]
    pub fn is_mine(&self) -> bool {
        state::current(|state| self.owner.load(Ordering::Relaxed) == K::me(state))
    }

    /// Returns true if a thread holds the lock at this moment.
    pub fn is_locked(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != 0
    }

    /// Like [`RobustLock::acquire`], after the first try has failed.
    #[cold]
    fn lock_slow(&self, state: &State, me: u32, until: Option<u64>) -> Option<Acquired> {
        let mut spins = 0;
        let mut slept = false;
        let result = loop {
            let held = self.owner.load(Ordering::Relaxed);
            if held == 0 {
                // SYNC: pairs with the store in `give_back`, as the exchange in `takes` does.
                if self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    break Some(Acquired::Clean);
                }
                continue;
            }
            if held == me {
                critical_section::leave_on(state);
                return Some(Acquired::Reentered);
            }
            if spins < SPINS {
                spins += 1;
                spin_loop();
                continue;
            }
            // SYNC: pairs with the Release fence in `robust_entry::enter`: the owner's entry is at least as new as the
            // lock word.
            fence(Ordering::Acquire);
            if !K::lives(held) {
                // SYNC: the load of the entry (`lives`) makes the dead owner's stores visible. If a living thread
                // has owned the lock since, this exchange fails.
                let taken =
                    self.owner.compare_exchange(held, me, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    break Some(Acquired::FromTheDead);
                }
                continue;
            }
            let left = match until.map(|until| until.saturating_sub(now_ns())) {
                Some(0) => {
                    critical_section::leave_on(state);
                    break None;
                }
                left => left.unwrap_or(STEP_NS).min(STEP_NS),
            };
            // Signal handlers may run during the sleep, unless the thread holds another lock.
            critical_section::leave_on(state);
            self.sleep_while(left, || self.owner.load(Ordering::Relaxed) == held);
            critical_section::enter_on(state);
            slept = true;
        };
        // This thread may have consumed a wake-up or followed a dead owner, while other threads still sleep.
        if slept || result == Some(Acquired::FromTheDead) {
            self.sleepers_go_on();
        }
        result
    }

    /// Sets [`SLEEPER`] again, because other threads may still sleep after the wake-up that the calling thread
    /// has got.
    pub(crate) fn sleepers_go_on(&self) {
        self.wakes.fetch_or(SLEEPER, Ordering::Relaxed);
    }

    /// Sleeps until a wake-up, at most `ns` nanoseconds. Returns at once if `is_held` returns false.
    pub(crate) fn sleep_while(&self, ns: u64, is_held: impl FnOnce() -> bool) {
        let wakes = self.wakes.fetch_or(SLEEPER, Ordering::SeqCst) | SLEEPER;
        // SYNC: pairs with `light` in `given_back`. If the other threads have no fence, this thread may miss a
        // wake-up. Then the sleep ends after `ns`.
        fences::heavy_if_known(K::REACH);
        if is_held() {
            sleep_on(&self.wakes, wakes, ns);
        }
    }
}

/// Guard of a lock. Releases the lock when dropped, unless the thread already held the lock before.
#[derive(Debug)]
pub struct Held<'a, K: Owners = Local, const RANK: u8 = { rank::NONE }> {
    lock: &'a RobustLock<K, RANK>,
    acquired: Acquired,
}

impl<K: Owners, const RANK: u8> Held<'_, K, RANK> {
    /// Returns how the lock was taken.
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
