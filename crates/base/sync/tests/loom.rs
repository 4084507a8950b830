//! Tests of the crate's own types with loom's atomics, in every interleaving.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p sovia-sync --test loom`

#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use loom::thread;
use sovia_sync::{Acquired, BiasedLock, RobustBox, RobustLock, hazard, robust_entry};

/// A value that two threads must not access at the same time. Loom fails the test if they do.
struct Guarded<L> {
    lock: L,
    value: loom::cell::UnsafeCell<u32>,
}

// SAFETY: threads access the value only under the lock. The tests check that the lock excludes.
unsafe impl<L: Sync> Sync for Guarded<L> {}
// SAFETY: the value is a number, which any thread may own.
unsafe impl<L: Send> Send for Guarded<L> {}

impl<L> Guarded<L> {
    fn new(lock: L) -> Arc<Guarded<L>> {
        Arc::new(Guarded { lock, value: loom::cell::UnsafeCell::new(0) })
    }

    /// Increments the value. The calling thread holds the lock.
    fn add_one(&self) {
        // SAFETY: the calling thread holds the lock, so no other thread accesses the value.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

impl Guarded<RobustLock> {
    fn add(&self) -> Acquired {
        let acquired = self.lock.lock();
        self.add_one();
        acquired
    }
}

/// A lock that becomes biased to a thread at its second acquisition.
impl Guarded<BiasedLock> {
    fn add(&self) -> Acquired {
        let acquired = self.lock.lock();
        self.add_one();
        acquired
    }

    fn add_and_leave(&self) {
        assert_eq!(self.add(), Acquired::Clean);
        self.lock.unlock();
    }

    /// Like `add_and_leave`, but uses `lock_biased` if the calling thread has the bias.
    fn add_as_biased(&self) {
        if self.lock.lock_biased() {
            self.add_one();
            self.lock.unlock_biased();
        } else {
            self.add_and_leave();
        }
    }
}

#[test]
fn a_lock_excludes_and_hands_on_what_was_written() {
    loom::model(|| {
        let shared = Guarded::new(RobustLock::new());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                assert_eq!(shared.add(), Acquired::Clean);
                shared.lock.unlock();
            })
        };
        assert_eq!(shared.add(), Acquired::Clean);
        shared.lock.unlock();
        other.join().unwrap();
        assert!(shared.lock.try_lock());
        // SAFETY: the calling thread holds the lock, so no other thread accesses the value.
        assert_eq!(shared.value.with(|value| unsafe { *value }), 2);
        shared.lock.unlock();
    });
}

/// No thread continues to sleep after the lock has become free. The test fails if either side omits its fence.
#[test]
fn a_thread_that_sleeps_for_a_lock_is_woken() {
    sovia_sync::ENDLESS.set(true);
    loom::model(|| {
        let shared = Guarded::new(RobustLock::new());
        let add = |shared: &Guarded<RobustLock>| {
            assert_eq!(shared.add(), Acquired::Clean);
            shared.lock.unlock();
        };
        // Use the lock once before the threads start: loom creates some statics at their first use, and this
        // creation orders threads. The processor's statics order no threads.
        add(&shared);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || add(&shared))
        };
        add(&shared);
        other.join().unwrap();
    });
    sovia_sync::ENDLESS.set(false);
}

#[test]
fn a_dead_owners_lock_is_taken_over_by_one() {
    loom::model(|| {
        let shared = Guarded::new(RobustLock::new());
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || {
                let _ = shared.add();
                // The kernel marks the entry of a thread that ends.
                robust_entry::ends();
            })
        };
        let heir = {
            let shared = shared.clone();
            thread::spawn(move || {
                let acquired = shared.add();
                shared.lock.unlock();
                acquired
            })
        };
        let heir = heir.join().unwrap();
        owner.join().unwrap();
        // The heir had the lock before or after the owner. In the first case, the next thread takes the lock from
        // the dead.
        if heir == Acquired::Clean {
            assert_eq!(shared.lock.lock(), Acquired::FromTheDead);
            shared.lock.unlock();
        }
        assert!(!shared.lock.is_locked());
        assert!(shared.lock.try_lock());
        // SAFETY: the calling thread holds the lock, so no other thread accesses the value.
        assert_eq!(shared.value.with(|value| unsafe { *value }), 2);
        shared.lock.unlock();
    });
}

/// Another thread may get a dead owner's entry at once. This thread does not count as the owner.
#[test]
fn a_robust_entry_of_another_thread_owns_nothing() {
    loom::model(|| {
        let shared = Guarded::new(RobustLock::new());
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || {
                let _ = shared.add();
                robust_entry::ends();
            })
        };
        owner.join().unwrap();
        let done = Arc::new(AtomicU32::new(0));
        let next = {
            let (shared, done) = (shared.clone(), done.clone());
            thread::spawn(move || {
                // Takes the dead thread's entry, and lives.
                let other = RobustLock::<sovia_sync::Local>::new();
                assert_eq!(other.lock(), Acquired::Clean);
                other.unlock();
                done.store(1, Ordering::Relaxed);
                assert!(!shared.lock.is_mine());
            })
        };
        assert_eq!(shared.add(), Acquired::FromTheDead);
        shared.lock.unlock();
        next.join().unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_box_gives_its_value_to_one_at_a_time() {
    loom::model(|| {
        let shared = Arc::new(RobustBox::new((0u32, 0u32)));
        let add = |shared: &RobustBox<(u32, u32)>| {
            shared.with(|value| {
                value.0 += 1;
                thread::yield_now();
                value.1 = value.0;
            });
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || add(&shared))
        };
        add(&shared);
        other.join().unwrap();
        shared.with(|value| assert_eq!(*value, (2, 2)));
    });
}

/// An object that threads find by a word, and that a thread frees once.
struct Findable {
    word: AtomicUsize,
    /// Written when the object is freed. Loom fails the test if another thread reads it at the same time.
    memory: loom::cell::UnsafeCell<u32>,
}

// SAFETY: a thread writes `memory` only after it has found no user. The tests check this.
unsafe impl Sync for Findable {}
// SAFETY: all fields are numbers, which any thread may own.
unsafe impl Send for Findable {}

const PLACE: usize = 64;

impl Findable {
    fn new() -> Arc<Findable> {
        // Use a hazard once before the threads start: loom creates some statics at their first use, and this
        // creation orders threads. The processor's statics order no threads.
        drop(hazard::publish(2 * PLACE));
        assert!(hazard::settle() && !hazard::is_used(2 * PLACE));
        let word = AtomicUsize::new(PLACE);
        Arc::new(Findable { word, memory: loom::cell::UnsafeCell::new(7) })
    }

    fn read(&self) {
        // SAFETY: the object is not freed while a hazard names it. Loom checks this.
        assert_eq!(self.memory.with(|memory| unsafe { *memory }), 7);
    }

    fn free_unless_used(&self) -> bool {
        let free = hazard::settle() && !hazard::is_used(PLACE);
        if free {
            // SAFETY: no thread finds or uses the object any more. Loom checks this.
            self.memory.with_mut(|memory| unsafe { *memory = 0 });
        }
        free
    }
}

#[test]
fn object_is_not_freed_while_a_hazard_names_its_address() {
    loom::model(|| {
        let shared = Findable::new();
        let user = {
            let shared = shared.clone();
            thread::spawn(move || {
                let hazard = hazard::publish(PLACE);
                if shared.word.load(Ordering::Acquire) == PLACE {
                    shared.read();
                }
                drop(hazard);
            })
        };
        shared.word.store(0, Ordering::Release);
        let freed = shared.free_unless_used();
        user.join().unwrap();
        assert!(freed || shared.free_unless_used());
    });
}

#[test]
fn object_is_not_freed_while_a_thread_waits_for_its_lock() {
    loom::model(|| {
        let shared = Findable::new();
        let lock = Arc::new(RobustLock::<sovia_sync::Local>::new());
        let user = {
            let (shared, lock) = (shared.clone(), lock.clone());
            thread::spawn(move || {
                let waits = hazard::Waits::begin(true);
                let held = lock.guard();
                let found = shared.word.load(Ordering::Relaxed) == PLACE;
                if found {
                    waits.keep(PLACE);
                }
                drop(held);
                if found {
                    shared.read();
                }
            })
        };
        {
            let _held = lock.guard();
            shared.word.store(0, Ordering::Relaxed);
        }
        let freed = shared.free_unless_used();
        user.join().unwrap();
        assert!(freed || shared.free_unless_used());
    });
}

fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Fails if the lock omits either check of the bias, or either fence.
#[test]
fn a_biased_thread_and_another_exclude_each_other() {
    bounded(|| {
        let shared = Guarded::new(BiasedLock::default());
        shared.add_and_leave();
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.add_and_leave();
                shared.add_as_biased();
            })
        };
        shared.add_and_leave();
        shared.add_as_biased();
        other.join().unwrap();
        assert!(shared.lock.try_lock());
        // SAFETY: the calling thread holds the lock, so no other thread accesses the value.
        assert_eq!(shared.value.with(|value| unsafe { *value }), 5);
        shared.lock.unlock();
    });
}

#[test]
fn a_thread_that_sleeps_for_a_biased_one_is_woken() {
    sovia_sync::ENDLESS.set(true);
    bounded(|| {
        let shared = Guarded::new(BiasedLock::default());
        shared.add_and_leave();
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.add_and_leave())
        };
        shared.add_and_leave();
        other.join().unwrap();
    });
    sovia_sync::ENDLESS.set(false);
}

#[test]
fn what_a_biased_thread_has_died_in_is_taken_over_by_one() {
    bounded(|| {
        let shared = Guarded::new(BiasedLock::default());
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.add_and_leave();
                let _ = shared.add();
                robust_entry::ends();
            })
        };
        let heir = {
            let shared = shared.clone();
            thread::spawn(move || {
                let acquired = shared.add();
                shared.lock.unlock();
                acquired
            })
        };
        let heir = heir.join().unwrap();
        owner.join().unwrap();
        // The heir had the lock before the owner, between the owner's acquisitions, or after the owner's end.
        let acquired = shared.lock.lock();
        assert_eq!(acquired == Acquired::FromTheDead, heir == Acquired::Clean);
        shared.lock.unlock();
        assert_eq!(shared.lock.lock(), Acquired::Clean);
        // SAFETY: the calling thread holds the lock, so no other thread accesses the value.
        assert_eq!(shared.value.with(|value| unsafe { *value }), 3);
        shared.lock.unlock();
    });
}
