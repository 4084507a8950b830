//! Checks the lock-free parts under every interleaving, by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p sovia-ring --test loom`
//!
//! A missed wake-up shows as a deadlock, which loom reports. Negative tests use copies of a protocol with one step left
//! out, and show that the tests would find the missing step. In the copies a sleeper only records its sleep, because
//! loom cannot clean up after a deadlock.
#![cfg(loom)]

mod arming;
mod completion_queue;
mod ready_list;
mod ring;
mod wake_word;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use sovia_ring::quiet::Quiet;
use sovia_ring::ready_list::{ReadyList, WakeWord};
use sovia_ring::ring::{Credit, Entry, SLOTS, Slot};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// Stands for the kernel's futex queue.
struct Futex {
    queue: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    fn new() -> Futex {
        Futex { queue: Mutex::new(()), woken: Condvar::new() }
    }

    fn wait(&self, word: &AtomicU32, expected: u32) {
        let queue = self.queue.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    fn wake(&self) {
        let _queue = self.queue.lock().unwrap();
        self.woken.notify_all();
    }
}

/// Records a sleep instead of sleeping, for the negative tests.
struct Note {
    /// Set while asleep; set once woken since.
    state: Mutex<(bool, bool)>,
}

impl Note {
    fn new() -> Note {
        Note { state: Mutex::new((false, false)) }
    }

    fn sleep_if(&self, still: impl FnOnce() -> bool) {
        let mut state = self.state.lock().unwrap();
        state.0 = still();
    }

    fn wake(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 = state.0;
    }

    /// Checks that no wake-up was missed. Call it after all events have been published.
    fn check(&self) {
        let (asleep, rung) = *self.state.lock().unwrap();
        assert!(!asleep || rung, "a missed wake-up");
    }
}

/// Stands for an eventfd that several threads write to and one thread waits for.
struct Doorbell {
    rung: Mutex<bool>,
    condvar: Condvar,
}

impl Doorbell {
    fn new() -> Doorbell {
        Doorbell { rung: Mutex::new(false), condvar: Condvar::new() }
    }

    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.condvar.notify_all();
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.condvar.wait(rung).unwrap();
        }
        *rung = false;
    }
}
