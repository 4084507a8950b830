//! The lock of a work queue.
//!
//! A queue is mostly used by one thread, and several times per message; so its lock is biased towards
//! that thread, which takes it with plain loads and stores. Another thread that wants the lock first
//! revokes the bias: it clears `biased` and has the kernel pass a memory fence on every
//! processor that runs this process (`membarrier`). After that, either the favoured thread is
//! seen to be inside, or it will see that it is favoured no more. A thread that then has the
//! lock to itself for long enough becomes the favoured one. Where there is no `membarrier`, no thread
//! is favoured, and taking the lock costs an atomic exchange.
//!
//! Each favoured thread sets a flag of its own while it is inside. With a common flag, a thread that has been
//! delayed since it read `biased` would clear the flag that its successor has set. So only [`BIASES`] threads
//! are favoured in a lock's life, and after them no thread is.
//!
//! The lock is held for the copy of a message at most. A thread that finds it held for longer than that
//! yields its processor.

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
/// How many threads are favoured in a lock's life; a power of two. Few, because each VI has two locks.
const BIASES: usize = 4;

/// No thread is favoured.
const NO_THREAD: usize = 0;
/// In the word that names the favoured thread: which flag is its own.
const FLAG: usize = BIASES - 1;

/// A value that one thread at a time may use.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lock<T> {
    /// The favoured thread, and in the lowest bits its flag.
    biased: AtomicUsize,
    /// Set while the favoured thread holds the lock: a flag for each thread that is ever favoured.
    inside: [AtomicBool; BIASES],
    /// Set while any other thread holds the lock.
    held: AtomicBool,
    /// For the thread that has set `held`.
    past: UnsafeCell<Past>,
    value: UnsafeCell<T>,
}

/// The earlier owners of a lock.
#[derive(Debug)]
struct Past {
    /// The last thread that took the lock without being favoured.
    last: usize,
    /// How often in a row it has taken the lock.
    times: u32,
    /// How many threads have been favoured.
    biases: u8,
}

// SAFETY: the lock hands the value to one thread at a time, which is what `Send` allows.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, until dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
    /// The flag that is cleared when this is dropped: `held`, or the favoured thread's.
    flag: &'a AtomicBool,
}

/// Tells the calling thread from all others that live.
#[inline]
fn me() -> usize {
    #[repr(align(4))]
    struct Place(#[expect(dead_code, reason = "only its address is used")] u8);
    const _: () = assert!(align_of::<Place>() == BIASES);
    thread_local! {
        static PLACE: Place = const { Place(0) };
    }
    PLACE.with(|place| core::ptr::from_ref(place) as usize)
}

/// Registers the process for the fence that revoking a bias needs. This takes the kernel some time where
/// there are several threads, so it is done before there is a lock, and not under one.
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
            biased: AtomicUsize::new(NO_THREAD),
            inside: [const { AtomicBool::new(false) }; BIASES],
            held: AtomicBool::new(false),
            past: UnsafeCell::new(Past { last: NO_THREAD, times: 0, biases: 0 }),
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
        let biased = self.biased.load(Ordering::Relaxed);
        if biased & !FLAG == me {
            let inside = &self.inside[biased & FLAG];
            assert!(!inside.load(Ordering::Relaxed), "a work queue is used within itself");
            point(At::Taking);
            inside.store(true, Ordering::Relaxed);
            // The thread that revokes the bias puts a true fence here, from outside.
            compiler_fence(Ordering::SeqCst);
            if self.biased.load(Ordering::Acquire) == biased {
                point(At::Locked);
                return Held { lock: self, flag: inside };
            }
            inside.store(false, Ordering::Release);
        }
        self.lock_like_others(me)
    }

    fn lock_like_others(&self, me: usize) -> Held<'_, T> {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        let biased = self.biased.load(Ordering::Relaxed);
        if biased != NO_THREAD {
            self.revoke(biased);
        }
        point(At::Locked);
        let held = Held { lock: self, flag: &self.held };
        // SAFETY: the lock is held, and no thread is favoured.
        let past = unsafe { &mut *self.past.get() };
        if past.last != me {
            (past.last, past.times) = (me, 0);
        }
        past.times += 1;
        if past.times >= LONG_ENOUGH {
            past.times = 0;
            let flag = usize::from(past.biases);
            if flag < BIASES && barrier_works() {
                // It is favoured from its next time on. This time it holds `held`, for which the
                // next thread waits first.
                self.biased.store(me | flag, Ordering::Release);
                past.biases += 1;
            }
        }
        held
    }

    /// Revokes the bias and waits until the favoured thread has left. The caller must hold `held`.
    #[cold]
    fn revoke(&self, biased: usize) {
        self.biased.store(NO_THREAD, Ordering::SeqCst);
        // Cannot fail: it has worked before the first thread was favoured.
        let _ = process::barrier();
        let mut spins = 0;
        while self.inside[biased & FLAG].load(Ordering::Acquire) {
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
    fn lock_excludes_threads_while_the_bias_moves() {
        let lock = Lock::new(0u64);
        std::thread::scope(|s| {
            for thread in 0..3 {
                let lock = &lock;
                s.spawn(move || {
                    for i in 0..20_000 {
                        *lock.lock() += 1;
                        // Long stretches alone, so that the bias comes and goes.
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
    fn lock_biases_its_frequent_user_until_another_thread_takes_it() {
        let lock = Lock::new(0u64);
        (0..LONG_ENOUGH).for_each(|_| *lock.lock() += 1);
        let biased = lock.biased.load(Ordering::Relaxed);
        assert_eq!(biased & !FLAG, if barrier_works() { me() } else { NO_THREAD });
        (0..10).for_each(|_| *lock.lock() += 1);
        std::thread::scope(|s| {
            s.spawn(|| *lock.lock() += 1);
        });
        assert_eq!(lock.biased.load(Ordering::Relaxed), NO_THREAD);
        assert_eq!(*lock.lock(), u64::from(LONG_ENOUGH) + 11);
    }

    #[test]
    fn each_biased_thread_has_a_flag_of_its_own() {
        let lock = Lock::new(0u64);
        let mut flags = Vec::new();
        // All of them live to the end: a thread may get the place of one that has ended.
        let end = std::sync::Barrier::new(BIASES + 3);
        std::thread::scope(|s| {
            for _ in 0..BIASES + 2 {
                let (say, said) = std::sync::mpsc::channel();
                let (lock, end) = (&lock, &end);
                s.spawn(move || {
                    (0..LONG_ENOUGH).for_each(|_| *lock.lock() += 1);
                    say.send(lock.biased.load(Ordering::Relaxed)).unwrap();
                    end.wait();
                });
                let biased = said.recv().unwrap();
                flags.extend((biased != NO_THREAD).then_some(biased & FLAG));
            }
            end.wait();
        });
        let all = if barrier_works() { BIASES } else { 0 };
        assert!(flags.into_iter().eq(0..all));
        assert_eq!(*lock.lock(), (BIASES as u64 + 2) * u64::from(LONG_ENOUGH));
    }
}
