use super::*;
use crate::{Family, robust_entry};

fn a_dead_owners_lock_is_taken_over<K: Owners + Sync>() {
    let lock = RobustLock::<K>::default();
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(lock.lock(), Acquired::Clean));
    });
    assert!(lock.is_locked() && !lock.is_mine());
    assert_eq!(lock.lock(), Acquired::FromTheDead);
    lock.unlock();
    assert_eq!(lock.lock(), Acquired::Clean);
    lock.unlock();
    assert!(!critical_section::is_inside());
}

#[test]
fn a_dead_owners_lock_is_taken_over_by_id() {
    // `robust_entry::start` has not run, so threads are known by their thread ids.
    a_dead_owners_lock_is_taken_over::<Family>();
}

#[test]
fn a_dead_owners_lock_is_taken_over_by_robust_entry() {
    robust_entry::start();
    a_dead_owners_lock_is_taken_over::<Local>();
}

#[test]
fn locking_again_reports_the_caller_as_owner() {
    let lock = RobustLock::<Local>::new();
    assert_eq!(lock.lock(), Acquired::Clean);
    assert_eq!(lock.lock(), Acquired::Reentered);
    assert_eq!(lock.lock_within(0), Some(Acquired::Reentered));
    assert!(!lock.try_lock());
    assert!(lock.is_mine());
    assert_eq!(critical_section::depth(), 1);
    lock.unlock();
    assert!(!critical_section::is_inside());
}

#[test]
fn lock_within_gives_up_or_gets_the_lock() {
    let lock = RobustLock::<Local>::new();
    assert!(lock.lock().is_held());
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(lock.lock_within(1_000_000), None));
    });
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(lock.lock_within(600_000_000_000), Some(Acquired::Clean)));
        std::thread::yield_now();
        lock.unlock();
    });
    // The owner has ended with the lock.
    assert_eq!(lock.lock_within(600_000_000_000), Some(Acquired::FromTheDead));
    lock.unlock();
}

#[test]
fn robust_lock_excludes() {
    let lock = RobustLock::<Local>::new();
    let shared = AtomicU32::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..10_000 {
                    assert_eq!(lock.lock(), Acquired::Clean);
                    let v = shared.load(Ordering::Relaxed);
                    shared.store(v + 1, Ordering::Relaxed);
                    lock.unlock();
                }
            });
        }
    });
    assert_eq!(shared.load(Ordering::Relaxed), 40_000);
}
