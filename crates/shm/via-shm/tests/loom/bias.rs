//! A model of the biased lock. The kernel's barrier is a fence in the biased thread, wherever this thread is.

use super::*;
use loom::cell::UnsafeCell;

struct Lock {
    biased: AtomicU32,
    inside: AtomicU32,
    held: Mutex<()>,
    value: UnsafeCell<u32>,
}

fn add(lock: &Lock) {
    // SAFETY: the thread holds the lock; loom checks that no other thread does.
    lock.value.with_mut(|value| unsafe { *value += 1 });
}

/// Takes the lock once, as the biased thread, with or without the second look at the bias.
fn biased(lock: &Lock, looks_again: bool) {
    if lock.biased.load(Ordering::Relaxed) == 1 {
        lock.inside.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !looks_again || lock.biased.load(Ordering::Acquire) == 1 {
            add(lock);
            lock.inside.store(0, Ordering::Release);
            return;
        }
        lock.inside.store(0, Ordering::Release);
    }
    let _held = lock.held.lock().unwrap();
    add(lock);
}

fn other(lock: &Lock) {
    let _held = lock.held.lock().unwrap();
    lock.biased.store(0, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    while lock.inside.load(Ordering::Acquire) != 0 {
        thread::yield_now();
    }
    add(lock);
}

fn model(looks_again: bool) {
    let lock = Arc::new(Lock {
        biased: AtomicU32::new(1),
        inside: AtomicU32::new(0),
        held: Mutex::new(()),
        value: UnsafeCell::new(0),
    });
    let thread = {
        let lock = lock.clone();
        thread::spawn(move || {
            biased(&lock, looks_again);
            biased(&lock, looks_again);
        })
    };
    other(&lock);
    thread.join().unwrap();
    // SAFETY: the other thread has ended, so this thread has the value alone.
    assert_eq!(lock.value.with(|value| unsafe { *value }), 3);
}

#[test]
fn a_revoked_privilege_is_noticed() {
    check(|| model(true));
}

#[test]
#[should_panic]
fn without_the_second_look_both_are_inside() {
    check(|| model(false));
}
