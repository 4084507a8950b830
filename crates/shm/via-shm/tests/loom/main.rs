//! The lock-free parts under every interleaving, by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p via-shm --test loom`
//!
//! A missed wake-up shows as a deadlock, which loom reports. The negative tests, on copies of a
//! protocol with one thing left out, show that it would be found; there a sleeper only notes that
//! it sleeps, since loom cannot clean up after a deadlock.
#![cfg(loom)]

mod arming;
mod bell;
mod bias;
mod completion_queue;
mod reaching;
mod ready_list;
mod ring;
mod serving;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use via_shm::quiet::Quiet;
use via_shm::ready_list::{Bell, ReadyList};
use via_shm::ring::{Credit, Entry, SLOTS, Slot};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// A kernel's futex queue.
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

/// A sleep that is noted, not slept; for the negative tests.
struct Note {
    /// Asleep, and rung since.
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

    /// At the end, when the news are out for good.
    fn check(&self) {
        let (asleep, rung) = *self.state.lock().unwrap();
        assert!(!asleep || rung, "a missed wake-up");
    }
}

/// A doorbell that many may ring and one waits for (an eventfd).
struct Doorbell {
    rung: Mutex<bool>,
    news: Condvar,
}

impl Doorbell {
    fn new() -> Doorbell {
        Doorbell { rung: Mutex::new(false), news: Condvar::new() }
    }

    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.news.notify_all();
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.news.wait(rung).unwrap();
        }
        *rung = false;
    }
}
