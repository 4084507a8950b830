//! The lock of a work queue.
//!
//! Usually one thread uses a queue, several times per message. So the lock is biased to this thread, which takes
//! the lock by plain loads and stores. Another thread must first revoke the bias. It clears `biased`, and makes the
//! kernel execute a fence on every processor that runs this process (`membarrier`). After this fence, the revoking
//! thread sees that the biased thread holds the lock, or the biased thread sees that it has lost the bias. A thread
//! gets the bias after it has taken the lock often enough in a row. Without `membarrier`, no thread gets the bias,
//! and each lock operation costs an atomic exchange.
//!
//! Each thread that gets the bias has its own flag, which it sets while it holds the lock. With one common flag, a
//! thread that has lost the bias could clear the flag that the next biased thread has set. So only the first
//! [`BIASES`] threads that qualify get the bias of a lock.
//!
//! A thread holds the lock at most for the copy of a message. A thread that still finds the lock held after a short
//! spin yields its processor.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};
use sovia_sys::stall::{At, point};
use sovia_sys::{call, process};
use std::sync::OnceLock;

/// Number of looks at a held lock before the thread yields its processor; a few microseconds.
const SPINS: u32 = 100;
/// Number of times in a row that a thread must take the lock to get the bias.
const LONG_ENOUGH: u32 = 1000;
/// Number of threads that can get the bias during a lock's existence; a power of two. Small, because each VI has
/// two locks, and each lock has this many flags.
const BIASES: usize = 4;

/// Value of `biased` while no thread has the bias.
const NO_THREAD: usize = 0;
/// Mask of the bits of `biased` that give the index of the biased thread's flag.
const FLAG: usize = BIASES - 1;

/// A value that one thread at a time may use.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lock<T> {
    /// The biased thread ([`me`]) and, in the lowest bits, the index of its flag.
    biased: AtomicUsize,
    /// Set while the biased thread holds the lock. Each thread that has ever had the bias has its own flag.
    inside: [AtomicBool; BIASES],
    /// Set while any other thread holds the lock.
    held: AtomicBool,
    /// Accessed only by the thread that has set `held`.
    past: UnsafeCell<Past>,
    value: UnsafeCell<T>,
}

/// Earlier owners of a lock.
#[derive(Debug)]
struct Past {
    /// Last thread that took the lock without the bias.
    last: usize,
    /// Number of times in a row that the thread `last` has taken the lock.
    times: u32,
    /// Number of threads that have had the bias.
    biases: u8,
}

// SAFETY: the lock gives the value to one thread at a time, and `T: Send` allows use from any thread. `past` is
// accessed only under `held`.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Access to the value of a held lock. Releases the lock when dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
    /// Flag to clear when this guard is dropped: `held`, or the biased thread's flag in `inside`.
    flag: &'a AtomicBool,
}

/// Returns a number that identifies the calling thread among the live threads.
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

/// Registers the process with the kernel for the fence that revokes a bias. The registration takes time if the
/// process has several threads. So call this function before the first lock is taken, and never while a lock is
/// held.
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
    /// If the thread holds the lock already, as may happen in a signal handler.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        let me = me();
        let biased = self.biased.load(Ordering::Relaxed);
        if biased & !FLAG == me {
            let inside = &self.inside[biased & FLAG];
            assert!(!inside.load(Ordering::Relaxed), "a work queue is used within itself");
            point(At::Taking);
            inside.store(true, Ordering::Relaxed);
            // SYNC: pairs with `process::barrier` in `revoke`, by which the kernel executes a fence in this thread.
            // So here only the compiler must keep the order of the store and the next load.
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
        // SAFETY: this thread has set `held`, which guards `past`, and no thread has the bias.
        let past = unsafe { &mut *self.past.get() };
        if past.last != me {
            (past.last, past.times) = (me, 0);
        }
        past.times += 1;
        if past.times >= LONG_ENOUGH {
            past.times = 0;
            let flag = usize::from(past.biases);
            if flag < BIASES && barrier_works() {
                // This thread uses the bias from its next `lock` on. Until then it holds `held`, and other threads
                // must wait for `held` before they can revoke the bias.
                self.biased.store(me | flag, Ordering::Release);
                past.biases += 1;
            }
        }
        held
    }

    /// Revokes the bias and waits until the biased thread has released the lock. The caller must hold `held`.
    #[cold]
    fn revoke(&self, biased: usize) {
        self.biased.store(NO_THREAD, Ordering::SeqCst);
        // Cannot fail, because a thread gets the bias only after this call has succeeded once.
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
        // SAFETY: the lock is held, so this is the only live `Held` of the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, so this is the only live `Held` of the lock, and `self` is borrowed mutably.
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
                        // Each thread is alone for long stretches, so that threads get the bias and lose it.
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
    fn lock_is_biased_to_its_frequent_user_until_another_thread_takes_the_lock() {
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
        // Keep all threads alive until the last one has counted. A new thread could get the number of an ended
        // thread.
        let end = std::sync::Barrier::new(BIASES + 3);
        std::thread::scope(|s| {
            for _ in 0..BIASES + 2 {
                let (report, reported) = std::sync::mpsc::channel();
                let (lock, end) = (&lock, &end);
                s.spawn(move || {
                    (0..LONG_ENOUGH).for_each(|_| *lock.lock() += 1);
                    report.send(lock.biased.load(Ordering::Relaxed)).unwrap();
                    end.wait();
                });
                let biased = reported.recv().unwrap();
                flags.extend((biased != NO_THREAD).then_some(biased & FLAG));
            }
            end.wait();
        });
        let all = if barrier_works() { BIASES } else { 0 };
        assert!(flags.into_iter().eq(0..all));
        assert_eq!(*lock.lock(), (BIASES as u64 + 2) * u64::from(LONG_ENOUGH));
    }
}
