//! Another process overwrites words of a segment, and the endpoints of a VI notice this.
#![cfg(not(loom))]

use sovia_ring::request::DISCRIMINATOR;
use sovia_ring::ring::{Entry, SLOTS};
use sovia_ring::{Endpoint, Segment};
use std::sync::atomic::{AtomicU64, Ordering};

/// Overwrites a word of a segment.
fn scribble(at: usize, value: u64) {
    // SAFETY: `at` is a multiple of 8 in a segment, which stays mapped in each test. The segment holds only atomics and
    // pool bytes, and the crate under test accepts any value there.
    unsafe { AtomicU64::from_ptr(at as *mut u64) }.store(value, Ordering::Relaxed);
}

/// Returns the two endpoints of a VI, as the sockets layer uses them, and their segment.
fn endpoints() -> (Segment, Endpoint, Endpoint) {
    let (segment, _fd) = Segment::create().unwrap();
    segment.recycle(0, false);
    // SAFETY: the segment is returned with the endpoints and outlives them in each test. One thread uses them.
    let (a, b) = unsafe { (Endpoint::new(&segment, 0, 0), Endpoint::new(&segment, 0, 1)) };
    (segment, a, b)
}

/// Sends `count` messages, and takes each off the queue.
fn pass(a: &mut Endpoint, b: &mut Endpoint, count: u32) {
    for n in 0..count {
        let bytes = vec![n as u8; [10, 5000][n as usize % 2]];
        assert!(a.tx.send(n, &bytes[..]).unwrap());
        let entry = b.rx.head().unwrap().unwrap();
        if let Some(position) = b.rx.advance(&entry).unwrap() {
            b.rx.release(position);
        }
    }
}

#[test]
fn undisturbed_ends_find_nothing_amiss_in_any_lap() {
    let (_segment, mut a, mut b) = endpoints();
    for _ in 0..3 * SLOTS {
        a.tx.audit().unwrap();
        b.tx.audit().unwrap();
        a.rx.audit().unwrap();
        b.rx.audit().unwrap();
        pass(&mut a, &mut b, 1);
    }
    while a.tx.send(0, b"x").unwrap() {}
    a.tx.audit().unwrap();
    b.rx.audit().unwrap();
}

#[test]
fn an_entry_that_is_overwritten_is_missed_by_both_ends() {
    for sent in [0, 1, SLOTS - 1, SLOTS, 3 * SLOTS + 5] {
        let (segment, mut a, mut b) = endpoints();
        pass(&mut a, &mut b, sent);
        a.tx.send(0, b"unread").unwrap();
        let slot = &segment.slots(0, 0)[(sent % SLOTS) as usize];
        let foreign = Entry { immediate: 0, len: 6, pool_offset: None };
        for tag in [sent + 1, sent + 7, sent ^ 1 << 20, u32::MAX - 1] {
            slot.publish(tag, foreign);
            assert!(b.rx.head().is_err(), "{sent} sent, {tag} in the place of the next");
            assert!(b.rx.audit().is_err());
            assert!(a.tx.audit().is_err());
        }
        // If the slot looks unused, only the sender can notice the change.
        slot.clear();
        assert_eq!(b.rx.head().is_err(), sent >= SLOTS);
        slot.publish(sent.wrapping_sub(SLOTS), foreign);
        assert_eq!(b.rx.head(), Ok(None));
        assert!(a.tx.audit().is_err());
        slot.publish(sent, foreign);
        a.tx.audit().unwrap();
    }
}

#[test]
fn receiver_sees_that_its_credit_is_overwritten() {
    let (segment, mut a, mut b) = endpoints();
    pass(&mut a, &mut b, 100);
    b.rx.audit().unwrap();
    let credit = &segment.direction(0, 0).credit;
    let (posted, released) = (credit.posted(), credit.released());
    assert!(posted > SLOTS && released > 0);
    credit.post(posted - 16);
    assert!(b.rx.audit().is_err());
    b.rx.repair();
    b.rx.audit().unwrap();
    credit.release(released - 64);
    assert!(b.rx.audit().is_err());
}

#[test]
fn announced_sleep_counts_until_the_next_wake_up() {
    let (segment, _a, _b) = endpoints();
    let wake_word = &segment.direction(0, 0).wake_word;
    let sleepers = || wake_word.look().is_some_and(|listeners| listeners.sleepers);
    wake_word.watch(5);
    assert!(!sleepers());
    wake_word.going_to_sleep();
    wake_word.going_to_sleep();
    assert!(sleepers());
    wake_word.wake();
    assert!(!sleepers());
    assert_eq!(wake_word.watchers(), 1 << 5);
    // The VI's next generation.
    wake_word.going_to_sleep();
    wake_word.clear();
    assert_eq!(wake_word.look(), None);
    wake_word.going_to_sleep();
    assert!(sleepers());
}

#[test]
fn a_mark_that_the_summary_has_lost_is_found_again() {
    let (segment, ..) = endpoints();
    let ready_list = segment.ready_list(0, 3);
    ready_list.reset(2);
    ready_list.going_to_sleep();
    assert_eq!(ready_list.notify(77), Some(2));
    // The summary is the word after the two words `sleeping` and `doorbell`.
    scribble(std::ptr::from_ref(ready_list) as usize + 8, 0);
    assert!(!ready_list.has_events());
    ready_list.notify(77);
    assert!(!ready_list.has_events(), "a mark is made once");
    ready_list.summarise();
    let mut seen = Vec::new();
    ready_list.drain(|vi| seen.push(vi));
    assert_eq!(seen, [77]);
}

#[test]
fn a_vi_in_use_is_not_requested_again_whatever_the_table_says() {
    let (segment, _fd) = Segment::create().unwrap();
    let in_use = std::cell::RefCell::new(Vec::new());
    let request = || {
        let reserve = |vi| {
            let unused = !in_use.borrow().contains(&vi);
            if unused {
                in_use.borrow_mut().push(vi);
            }
            unused
        };
        let free = |vi| in_use.borrow_mut().retain(|&other| other != vi);
        segment.request_connection_on(0, &[0; DISCRIMINATOR], reserve, free).unwrap()
    };
    let first = request();
    scribble(std::ptr::from_ref(segment.request(first)) as usize, 0);
    assert_ne!(request(), first);
    assert_eq!(in_use.borrow().len(), 2);
}
