//! The lock of a work queue.
//!
//! A queue is mostly used by one thread, and several times per message; so its lock leans towards
//! the thread that uses it, which takes it with plain loads and stores. Another thread that wants
//! it first takes this privilege away: it says so and has the kernel pass a memory fence on every
//! processor that runs this process (`membarrier`), after which either the favoured thread is
//! seen to be inside, or will see that it is favoured no more. A thread that then has the
//! lock to itself for long enough becomes the favoured one. Where there is no `membarrier`, nobody
//! is favoured, and taking the lock costs an atomic exchange.
//!
//! It is held for the copy of a message at most. Somebody who finds it held for longer than that
//! takes lets others run.

use crate::sync::{At, point};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};
use sovia_sys::{call, process};
use std::sync::OnceLock;

/// Looks at a held lock before the processor is offered to others; a few microseconds.
const SPINS: u32 = 100;
/// How often in a row the same thread has to take the lock to be favoured.
const LONG_ENOUGH: u32 = 1000;

/// Nobody is favoured.
const NOBODY: usize = 0;

/// A value that one thread at a time may use.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lock<T> {
    /// The favoured thread.
    favoured: AtomicUsize,
    /// The favoured thread has the lock.
    inside: AtomicBool,
    /// Another thread has it.
    held: AtomicBool,
    /// Who had it last without being favoured, and how often in a row; for holders.
    last: UnsafeCell<(usize, u32)>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time, which is what `Send` allows.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, until dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
    /// Which of the lock's two flags says so.
    flag: &'a AtomicBool,
}

/// Tells the calling thread from all others that live.
#[inline]
fn me() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| core::ptr::from_ref(place) as usize)
}

/// Has the kernel get ready for what taking a privilege away needs, which takes it some time where
/// there are several threads: so not under a lock, but before there is one.
pub(crate) fn prepare() {
    barrier_works();
}

fn barrier_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| process::enable_barrier() && process::barrier().is_ok())
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock {
            favoured: AtomicUsize::new(NOBODY),
            inside: AtomicBool::new(false),
            held: AtomicBool::new(false),
            last: UnsafeCell::new((NOBODY, 0)),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// If the thread has it already, as a signal handler might find.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        let me = me();
        if self.favoured.load(Ordering::Relaxed) == me {
            assert!(!self.inside.load(Ordering::Relaxed), "a work queue is used within itself");
            self.inside.store(true, Ordering::Relaxed);
            // Whoever takes the privilege away puts a true fence here, from outside.
            compiler_fence(Ordering::SeqCst);
            if self.favoured.load(Ordering::Acquire) == me {
                point(At::Locked);
                return Held { lock: self, flag: &self.inside };
            }
            self.inside.store(false, Ordering::Release);
        }
        self.lock_like_others(me)
    }

    fn lock_like_others(&self, me: usize) -> Held<'_, T> {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        if self.favoured.load(Ordering::Relaxed) != NOBODY {
            self.revoke();
        }
        point(At::Locked);
        let held = Held { lock: self, flag: &self.held };
        // SAFETY: the lock is held, and nobody is favoured.
        let (last, times) = unsafe { &mut *self.last.get() };
        if *last != me {
            (*last, *times) = (me, 0);
        }
        *times += 1;
        if *times >= LONG_ENOUGH {
            *times = 0;
            if barrier_works() {
                // It is favoured from its next time on; this time it has the other flag, for
                // which whoever comes next waits first.
                self.favoured.store(me, Ordering::Release);
            }
        }
        held
    }

    /// Takes the privilege away, and waits until who had it is not inside. For who has `held`.
    #[cold]
    fn revoke(&self) {
        self.favoured.store(NOBODY, Ordering::SeqCst);
        // Cannot fail: it has worked before anybody was favoured.
        let _ = process::barrier();
        let mut spins = 0;
        while self.inside.load(Ordering::Acquire) {
            pause(&mut spins);
        }
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0;
        loop {
            while self.held.load(Ordering::Relaxed) {
                pause(&mut spins);
            }
            if !self.held.swap(true, Ordering::Acquire) {
                return;
            }
        }
    }
}

fn pause(spins: &mut u32) {
    *spins += 1;
    if *spins < SPINS {
        core::hint::spin_loop();
    } else {
        call::sched_yield();
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this is the only `Held` of its lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        point(At::Unlocking);
        self.flag.store(false, Ordering::Release);
        point(At::Unlocked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn it_excludes_whoever_is_favoured() {
        let lock = Lock::new(0u64);
        std::thread::scope(|s| {
            for thread in 0..3 {
                let lock = &lock;
                s.spawn(move || {
                    for i in 0..20_000 {
                        *lock.lock() += 1;
                        // Long stretches alone, so that the privilege comes and goes.
                        if i % 5000 == thread * 1000 {
                            std::thread::sleep(Duration::from_micros(300));
                        }
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 60_000);
    }

    #[test]
    fn the_favour_goes_to_who_uses_it_and_can_be_lost() {
        let lock = Lock::new(0u64);
        (0..LONG_ENOUGH).for_each(|_| *lock.lock() += 1);
        let favoured = lock.favoured.load(Ordering::Relaxed);
        assert_eq!(favoured, if barrier_works() { me() } else { NOBODY });
        (0..10).for_each(|_| *lock.lock() += 1);
        std::thread::scope(|s| {
            s.spawn(|| *lock.lock() += 1);
        });
        assert_eq!(lock.favoured.load(Ordering::Relaxed), NOBODY);
        assert_eq!(*lock.lock(), u64::from(LONG_ENOUGH) + 11);
    }
}
