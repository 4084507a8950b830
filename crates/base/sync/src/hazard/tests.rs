use super::*;
use std::sync::mpsc;

/// Starts a thread that calls `does`, and ends after a message on the returned channel.
fn user(does: impl FnOnce() + Send + 'static) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (go, may_go) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        does();
        ready.send(()).unwrap();
        may_go.recv().unwrap();
    });
    is_ready.recv().unwrap();
    (go, thread)
}

fn used(place: usize) -> bool {
    assert!(settle());
    is_used(place)
}

#[test]
fn address_counts_as_used_until_the_other_thread_drops_its_hazard() {
    let (used_by, hazard_is_dropped) = (64, mpsc::channel());
    let (drop_it, may_drop) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let user = std::thread::spawn(move || {
        let hazard = publish(used_by);
        ready.send(()).unwrap();
        may_drop.recv().unwrap();
        drop(hazard);
        hazard_is_dropped.0.send(()).unwrap();
    });
    is_ready.recv().unwrap();
    assert!(used(used_by));
    assert!(!used(128));
    drop_it.send(()).unwrap();
    hazard_is_dropped.1.recv().unwrap();
    assert!(!used(used_by));
    user.join().unwrap();
}

#[test]
fn the_threads_that_use_something_are_known() {
    let use_it = || core::mem::forget(publish(3001));
    let (go, other) = user(use_it);
    let mine = publish(3001);
    let _again = publish(3001);
    assert!(settle());
    let users = users(3001);
    assert_eq!(users.len(), 2);
    assert!(users.contains(&User::me()) && users.iter().all(|user| user.lives()));
    let theirs = *users.iter().find(|&&user| user != User::me()).unwrap();
    go.send(()).unwrap();
    other.join().unwrap();
    // The kernel marks the entry when the thread ends, which may be a moment after the join.
    while theirs.lives() {
        std::thread::yield_now();
    }
    drop(mine);
}

#[test]
fn thread_may_use_more_addresses_than_its_entry_has_words() {
    let all: Vec<_> = (1..40).map(|i| publish(i << 20)).collect();
    assert!((1..40).all(|i| used(i << 20)));
    drop(all);
    assert!(!(1..40).any(|i| used(i << 20)));
    let waits = Waits::begin(true);
    (1..40).for_each(|i| waits.keep(i << 21));
    assert!((1..40).all(|i| used(i << 21)));
    drop(waits);
    assert!(!(1..40).any(|i| used(i << 21)));
}

#[test]
fn a_hazard_that_changes_names_only_its_last_object() {
    // The last hazards find no free word.
    let mut all: Vec<_> = (1..40).map(|i| publish(i << 22)).collect();
    for (i, hazard) in (1..40).zip(&mut all) {
        hazard.change_to(i << 23 | 1);
    }
    assert!((1..40).all(|i| used(i << 23 | 1) && !used(i << 22)));
    drop(all);
    assert!(!(1..40).any(|i| used(i << 23 | 1)));
}

#[test]
fn a_wait_that_was_left_is_forgotten_by_the_next_one_that_is_no_handlers() {
    let leave = |places: core::ops::Range<usize>| {
        let left = Waits::begin(false);
        places.for_each(|place| left.keep(place));
        core::mem::forget(left);
    };
    leave(1001..1003);
    let handlers = Waits::begin(false);
    assert!(used(1001) && used(1002));
    drop(handlers);
    // More objects than the thread has hazard words.
    leave(1003..1043);
    assert!((1001..1043).all(used));
    let next = Waits::begin(true);
    assert!(!(1001..1043).any(used));
    next.keep(1043);
    assert!(used(1043));
}

#[test]
fn a_thread_that_has_ended_uses_nothing() {
    let forget = || {
        let waits = Waits::begin(true);
        (2001..2041).for_each(|place| waits.keep(place));
        core::mem::forget(waits);
        core::mem::forget(publish(2041));
    };
    let (go, thread) = user(forget);
    assert!((2001..2042).all(used));
    go.send(()).unwrap();
    thread.join().unwrap();
    // The kernel marks the entry when the thread ends, which may be a moment after the join.
    while (2001..2042).any(used) {
        std::thread::yield_now();
    }
}
