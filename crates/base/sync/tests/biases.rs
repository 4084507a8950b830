//! A lock in memory that processes share, with a bias to a thread of one of them.

#![cfg(not(loom))]

use crate::common::{fork, reap};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::{Acquired, BiasedLock, Family, fences, robust_entry};
use std::sync::Mutex;

#[repr(C)]
struct Shared {
    threads: robust_entry::Table<{ robust_entry::SHARED }>,
    lock: BiasedLock<Family>,
    /// Two counters, which are equal whenever the lock is free, unless the last owner has died.
    counts: [AtomicU32; 2],
    step: AtomicU32,
}

/// Number of acquisitions that is enough for a bias, also after a revocation.
const OFTEN: u32 = 5000;

/// Runs `test` with memory that children share with this process. Runs one test at a time.
fn with_shared(test: impl FnOnce(&'static Shared) + Send) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    robust_entry::start();
    fences::find_out();
    if !fences::are_from_kernel() {
        println!("no thread is favoured here");
    }
    let mapping = sovia_sys::Mapping::for_family(size_of::<Shared>()).unwrap();
    let at = mapping.base() as usize;
    std::mem::forget(mapping);
    // SAFETY: the mapping is never unmapped, and all-zero memory is valid for each field.
    let shared = unsafe { &*(at as *const Shared) };
    robust_entry::share(&shared.threads);
    // A new thread, which has no entry in the table of another test.
    std::thread::scope(|s| {
        s.spawn(|| test(shared));
    });
}

fn await_step(s: &Shared, step: u32) {
    while s.step.load(Ordering::Acquire) < step {
        sovia_sys::call::sched_yield();
    }
}

/// Increments the counters once under the lock, and returns how the lock was taken. Every other time, a biased
/// thread takes the lock by [`BiasedLock::lock_biased`].
fn count(s: &Shared) -> Acquired {
    let in_place = s.counts[0].load(Ordering::Relaxed).is_multiple_of(2) && s.lock.lock_biased();
    let acquired = if in_place { Acquired::Clean } else { s.lock.lock() };
    let [first, second] = &s.counts;
    if acquired == Acquired::FromTheDead {
        second.store(first.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let before = first.load(Ordering::Relaxed);
    assert_eq!(second.load(Ordering::Relaxed), before, "{acquired:?}");
    first.store(before + 1, Ordering::Relaxed);
    second.store(before + 1, Ordering::Relaxed);
    if in_place {
        s.lock.unlock_biased()
    } else {
        s.lock.unlock()
    }
    acquired
}

#[test]
fn a_bias_is_taken_away_by_another_process() {
    with_shared(|s| {
        let child = fork(|| {
            for _ in 0..OFTEN {
                count(s);
            }
            assert_eq!(s.lock.lock(), Acquired::Clean);
            s.step.store(1, Ordering::Release);
            await_step(s, 2);
            s.lock.unlock();
            await_step(s, 3);
            let _ = s.lock.lock();
        });
        await_step(s, 1);
        // The child is inside.
        assert_eq!(s.lock.lock_within(5_000_000), None);
        assert!(!s.lock.try_lock());
        s.step.store(2, Ordering::Release);
        assert_eq!(count(s), Acquired::Clean);
        s.step.store(3, Ordering::Release);
        reap(child);
        assert_eq!(count(s), Acquired::FromTheDead);
        assert_eq!(count(s), Acquired::Clean);
    });
}

#[test]
fn forked_copy_of_the_biased_thread_is_another_thread() {
    with_shared(|s| {
        for _ in 0..OFTEN {
            count(s);
        }
        assert_eq!(s.lock.lock(), Acquired::Clean);
        let child = fork(|| {
            assert!(!s.lock.is_mine() && !s.lock.try_lock());
            s.step.store(1, Ordering::Release);
            for _ in 0..OFTEN {
                assert_eq!(count(s), Acquired::Clean);
            }
        });
        await_step(s, 1);
        s.lock.unlock();
        for _ in 0..OFTEN {
            count(s);
        }
        reap(child);
        assert_eq!(s.counts[0].load(Ordering::Relaxed), 3 * OFTEN);
    });
}

/// Kills the biased thread at any point. No second thread enters, and the next owner finds the unfinished work.
#[test]
fn a_biased_thread_is_killed_anywhere() {
    with_shared(|s| {
        let mut found = 0;
        for round in 0..100u32 {
            let from = s.counts[0].load(Ordering::Relaxed);
            let child = fork(|| {
                loop {
                    count(s);
                }
            });
            while s.counts[0].load(Ordering::Relaxed).wrapping_sub(from) < OFTEN + 37 * round {
                std::hint::spin_loop();
                if round % 4 == 3 && s.counts[0].load(Ordering::Relaxed) % 512 == 0 {
                    count(s);
                }
            }
            // SAFETY: `child` is a child of this test that the test has not reaped yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
            found += u32::from(count(s) == Acquired::FromTheDead);
            reap(child);
            found += u32::from(count(s) == Acquired::FromTheDead);
            assert_eq!(count(s), Acquired::Clean);
        }
        println!("{found} of 100 left something");
    });
}
