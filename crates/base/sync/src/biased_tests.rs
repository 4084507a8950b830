use super::*;
use crate::record;

/// Whether the lock favours the calling thread now; it does where the kernel puts fences.
fn biases_me(lock: &BiasedLock) -> bool {
    state::current(|state| lock.biased.load(Ordering::Relaxed) == Local::me(state))
}

/// A lock that favours the calling thread, if any is favoured here.
fn biasing() -> BiasedLock {
    record::start();
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
        println!("no thread is favoured here");
    }
    lock
}

/// The calling thread takes the lock until it favours that thread, if any is favoured here.
fn become_biased(lock: &BiasedLock) {
    record::start();
    fences::find_out();
    for _ in 0..=ENOUGH {
        assert_eq!(lock.lock(), Acquired::Clean);
        lock.unlock();
    }
}

#[test]
fn a_thread_that_takes_it_often_is_biased_until_another_takes_it() {
    let lock = biasing();
    let biased = biases_me(&lock);
    assert_eq!(lock.lock(), Acquired::Clean);
    // Without a change to the lock below.
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
    assert!(!section::is_inside());
}

#[test]
fn the_biased_thread_alone_takes_it_in_place_and_under_no_other_lock() {
    let lock = biasing();
    let other = biasing();
    let biased = biases_me(&lock);
    for _ in 0..3 {
        assert_eq!(lock.lock_biased(), biased);
        if !biased {
            return;
        }
        assert!(lock.is_mine() && section::depth() == 1);
        // As in a signal handler that interrupts it here.
        assert!(!lock.lock_biased() && !other.lock_biased());
        assert_eq!(lock.lock(), Acquired::Reentered);
        lock.unlock_biased();
        assert!(!lock.is_mine() && !section::is_inside());
    }
    std::thread::scope(|s| {
        s.spawn(|| {
            assert!(!lock.lock_biased());
            assert_eq!(lock.lock(), Acquired::Clean);
            lock.unlock();
        });
    });
    assert!(!lock.lock_biased() && !section::is_inside());
}

#[test]
fn the_biased_thread_is_told_that_it_has_the_lock() {
    let lock = biasing();
    let other = biasing();
    assert_eq!(lock.lock(), Acquired::Clean);
    assert!(lock.is_mine() && !other.is_mine());
    assert_eq!(lock.lock(), Acquired::Reentered);
    assert_eq!(lock.lock_within(0), Some(Acquired::Reentered));
    assert!(!lock.try_lock());
    // Its word names one lock: another one is taken as others take it.
    assert_eq!(other.lock(), Acquired::Clean);
    assert!(other.is_mine() && lock.is_mine());
    other.unlock();
    assert_eq!(section::depth(), 1);
    std::thread::scope(|s| {
        s.spawn(|| {
            assert!(!lock.try_lock() && !lock.is_mine());
            assert_eq!(lock.lock_within(1_000_000), None);
            assert!(!section::is_inside());
        });
    });
    // While another thread takes the favour away it is still told.
    assert_eq!(lock.lock(), Acquired::Reentered);
    lock.unlock();
    assert!(!lock.is_mine() && !section::is_inside());
    assert!(lock.try_lock());
    lock.unlock();
}

#[test]
fn what_the_biased_thread_has_died_in_is_to_be_repaired() {
    let lock = BiasedLock::<Local>::default();
    std::thread::scope(|s| {
        s.spawn(|| {
            become_biased(&lock);
            assert_eq!(lock.lock(), Acquired::Clean);
        });
    });
    // A try repairs nothing, and does not lose it.
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
    // Unless another test's thread has got its record since.
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
    record::start();
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
                    // Long stretches alone.
                    if i % ENOUGH == thread * ENOUGH / 3 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(shared.load(Ordering::Relaxed), 3 * each);
}
