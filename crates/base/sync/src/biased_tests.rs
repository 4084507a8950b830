use super::*;
use crate::robust_entry;

/// Returns true if the lock is biased to the calling thread. Needs the kernel's fences.
fn biases_me(lock: &BiasedLock) -> bool {
    state::current(|state| lock.biased.load(Ordering::Relaxed) == Local::me(state))
}

/// Returns a lock that is biased to the calling thread, if this host allows biases.
fn biasing() -> BiasedLock {
    robust_entry::start();
    fences::find_out();
    let lock = BiasedLock::default();
    for _ in 0..ENOUGH {
        assert!(!biases_me(&lock));
        assert_eq!(lock.lock(), Acquired::Clean);
        lock.unlock();
    }
    let is_possible = fences::are_from_kernel() && state::current(Local::inside).is_some();
    assert_eq!(biases_me(&lock), is_possible);
    if !is_possible {
        println!("the lock is biased to no thread on this host");
    }
    lock
}

/// Takes the lock in the calling thread until the lock is biased to this thread, if this host allows biases.
fn become_biased(lock: &BiasedLock) {
    robust_entry::start();
    fences::find_out();
    for _ in 0..=ENOUGH {
        assert_eq!(lock.lock(), Acquired::Clean);
        lock.unlock();
    }
}

#[test]
fn frequent_thread_is_biased_until_another_thread_takes_the_lock() {
    let lock = biasing();
    let biased = biases_me(&lock);
    assert_eq!(lock.lock(), Acquired::Clean);
    // A biased thread does not change the inner lock.
    assert_eq!(lock.lock.is_locked(), !biased);
    lock.unlock();
    std::thread::scope(|s| {
        s.spawn(|| {
            assert_eq!(lock.lock(), Acquired::Clean);
            lock.unlock();
        });
    });
    assert!(!biases_me(&lock));
    assert_eq!(lock.lock(), Acquired::Clean);
    lock.unlock();
    assert!(!critical_section::is_inside());
}

#[test]
fn biased_thread_alone_takes_the_lock_in_place_and_under_no_other_lock() {
    let lock = biasing();
    let other = biasing();
    let biased = biases_me(&lock);
    for _ in 0..3 {
        assert_eq!(lock.lock_biased(), biased);
        if !biased {
            return;
        }
        assert!(lock.is_mine() && critical_section::depth() == 1);
        // These calls stand for a signal handler that interrupts the thread here.
        assert!(!lock.lock_biased() && !other.lock_biased());
        assert_eq!(lock.lock(), Acquired::Reentered);
        lock.unlock_biased();
        assert!(!lock.is_mine() && !critical_section::is_inside());
    }
    std::thread::scope(|s| {
        s.spawn(|| {
            assert!(!lock.lock_biased());
            assert_eq!(lock.lock(), Acquired::Clean);
            lock.unlock();
        });
    });
    assert!(!lock.lock_biased() && !critical_section::is_inside());
}

#[test]
fn biased_thread_in_its_critical_section_does_not_get_the_lock_again() {
    let lock = biasing();
    let other = biasing();
    assert_eq!(lock.lock(), Acquired::Clean);
    assert!(lock.is_mine() && !other.is_mine());
    assert_eq!(lock.lock(), Acquired::Reentered);
    assert_eq!(lock.lock_within(0), Some(Acquired::Reentered));
    assert!(!lock.try_lock());
    // The thread's word names one lock, so the thread takes a second lock as an unbiased thread.
    assert_eq!(other.lock(), Acquired::Clean);
    assert!(other.is_mine() && lock.is_mine());
    other.unlock();
    assert_eq!(critical_section::depth(), 1);
    std::thread::scope(|s| {
        s.spawn(|| {
            assert!(!lock.try_lock() && !lock.is_mine());
            assert_eq!(lock.lock_within(1_000_000), None);
            assert!(!critical_section::is_inside());
        });
    });
    // The thread still finds that it holds the lock while another thread revokes the bias.
    assert_eq!(lock.lock(), Acquired::Reentered);
    lock.unlock();
    assert!(!lock.is_mine() && !critical_section::is_inside());
    assert!(lock.try_lock());
    lock.unlock();
}

#[test]
fn critical_section_in_which_the_biased_thread_died_needs_repair() {
    let lock = BiasedLock::<Local>::default();
    std::thread::scope(|s| {
        s.spawn(|| {
            become_biased(&lock);
            assert_eq!(lock.lock(), Acquired::Clean);
        });
    });
    // A failed try leaves the state to the next owner.
    assert!(!lock.try_lock());
    assert_eq!(lock.lock(), Acquired::FromTheDead);
    lock.unlock();
    assert_eq!(lock.lock(), Acquired::Clean);
    lock.unlock();
}

#[test]
fn a_biased_thread_that_has_ended_outside_leaves_nothing_to_repair() {
    let lock = BiasedLock::<Local>::default();
    let name = AtomicU32::new(0);
    std::thread::scope(|s| {
        s.spawn(|| {
            become_biased(&lock);
            name.store(state::current(Local::me), Ordering::Relaxed);
        });
    });
    let name = name.load(Ordering::Relaxed);
    assert!(!biases_me(&lock));
    // True unless a thread of another test has got the entry since.
    let is_known = || Local::ended_outside(name, lock.place());
    while Local::lives(name) {
        std::thread::yield_now();
    }
    let acquired = lock.lock();
    assert!(acquired == Acquired::Clean || !is_known(), "{acquired:?}");
    lock.unlock();
}

#[test]
fn biased_lock_excludes_while_the_bias_comes_and_goes() {
    robust_entry::start();
    fences::find_out();
    let lock = BiasedLock::<Local>::default();
    let shared = AtomicU32::new(0);
    let each = 4 * ENOUGH;
    std::thread::scope(|s| {
        for thread in 0..3 {
            let (lock, shared) = (&lock, &shared);
            s.spawn(move || {
                for i in 0..each {
                    assert_eq!(lock.lock(), Acquired::Clean);
                    let seen = shared.load(Ordering::Relaxed);
                    shared.store(seen + 1, Ordering::Relaxed);
                    lock.unlock();
                    // Long stretches in which a thread runs alone.
                    if i % ENOUGH == thread * ENOUGH / 3 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(shared.load(Ordering::Relaxed), 3 * each);
}
