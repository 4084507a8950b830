use super::*;
use crate::ring::{Entry, INLINE, SLOTS};
use core::ptr::NonNull;
use proptest::prelude::*;

fn pair() -> (Segment, Endpoint, Endpoint) {
    let (segment, _fd) = Segment::create().unwrap();
    segment.recycle(4, false);
    // SAFETY: the segment is returned with the endpoints and outlives them in each test. One thread uses them.
    let (a, b) = unsafe { (Endpoint::new(&segment, 4, 0), Endpoint::new(&segment, 4, 1)) };
    (segment, a, b)
}

#[test]
fn messages_of_every_size_arrive_whole_and_in_order() {
    let (_segment, mut a, mut b) = pair();
    for round in 0..500usize {
        let sizes = [0, 1, 7, 8, 47, 48, 111, 112, 113, 4096, MESSAGE_MAX];
        for (i, &size) in sizes.iter().enumerate() {
            let bytes: Vec<u8> = (0..size).map(|k| (k + i + round) as u8).collect();
            assert!(a.tx.send(i as u32, &bytes[..]).unwrap());
        }
        for (i, &size) in sizes.iter().enumerate() {
            let entry = b.rx.head().unwrap().unwrap();
            assert_eq!((entry.immediate, entry.len as usize), (i as u32, size));
            let mut out = vec![0; size];
            b.rx.copy_head(&entry, 0, &mut out[..]).unwrap();
            assert!(out.iter().enumerate().all(|(k, &v)| v == (k + i + round) as u8));
            if let Some(position) = b.rx.advance(&entry).unwrap() {
                b.rx.release(position);
            }
        }
        assert_eq!(b.rx.head().unwrap(), None);
    }
}

#[test]
fn without_a_posted_receive_nothing_is_sent() {
    let (_segment, mut a, mut b) = pair();
    for _ in 0..SLOTS {
        assert!(a.tx.send(0, b"x").unwrap());
    }
    assert!(!a.tx.send(0, b"x").unwrap());
    for _ in 0..CREDIT_BATCH {
        let entry = b.rx.head().unwrap().unwrap();
        b.rx.advance(&entry).unwrap();
    }
    assert!(a.tx.send(0, b"x").unwrap());
}

/// A step of the sender, which lends ranges of the pool, or of the receiver, which borrows messages in the pool.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send(usize),
    Lend(u32),
    Commit(u32),
    TakeBack,
    Receive,
    Borrow,
    GiveBack,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0usize..40_000).prop_map(Step::Send),
        (1u32..60_000).prop_map(Step::Lend),
        (1u32..60_000).prop_map(Step::Commit),
        Just(Step::TakeBack),
        Just(Step::Receive),
        Just(Step::Receive),
        Just(Step::Borrow),
        Just(Step::GiveBack),
    ]
}

proptest! {
    /// Lends and borrows ranges of the pool in random order. Every message arrives as written. A borrowed message does
    /// not change until it is returned.
    #[test]
    fn lent_and_borrowed_places_are_left_alone(
        steps in proptest::collection::vec(step(), 1..600)
    ) {
        let (_segment, mut a, mut b) = pair();
        let (mut written, mut read) = (0u32, 0u32);
        let mut lent: Option<(NonNull<u8>, u32)> = None;
        // Address, length and number of the borrowed message, and the pool position to release afterwards.
        let mut borrowed: Option<(NonNull<u8>, usize, u32)> = None;
        let mut owed = 0;
        for step in steps {
            match step {
                Step::Send(len) => {
                    let sent = a.tx.send(written, &vec![written as u8; len][..]).unwrap();
                    prop_assert!(!sent || lent.is_none() || len <= INLINE);
                    written += u32::from(sent);
                }
                Step::Lend(len) => {
                    if let Some(place) = a.tx.lend(len).unwrap() {
                        prop_assert!(lent.is_none());
                        lent = Some((place, len));
                    }
                }
                Step::Commit(len) => {
                    let Some((place, room)) = lent else { continue };
                    let len = len.min(room);
                    // SAFETY: the lent range has at least `len` bytes, and no other code uses it.
                    unsafe { place.write_bytes(written as u8, len as usize) };
                    if a.tx.commit(written, len).unwrap() {
                        written += 1;
                        lent = None;
                    }
                }
                Step::TakeBack => {
                    a.tx.take_back();
                    lent = None;
                }
                Step::Receive | Step::Borrow => {
                    let Some(entry) = b.rx.head().unwrap() else { continue };
                    prop_assert_eq!(entry.immediate, read);
                    let mut out = vec![0; entry.len as usize];
                    b.rx.copy_head(&entry, 0, &mut out[..]).unwrap();
                    prop_assert!(out.iter().all(|&byte| byte == read as u8));
                    if let Some(position) = b.rx.advance(&entry).unwrap() {
                        owed = position;
                        let place = b.rx.pooled(entry.pool_offset.unwrap(), entry.len, 0);
                        if matches!(step, Step::Borrow) && borrowed.is_none() {
                            borrowed = Some((place.unwrap(), out.len(), read));
                        }
                    }
                    read += 1;
                }
                Step::GiveBack => borrowed = None,
            }
            match borrowed {
                Some((place, len, number)) => {
                    // SAFETY: the borrowed range has `len` bytes, and the sender does not write to the range before
                    // the receiver releases it.
                    let seen = unsafe { core::slice::from_raw_parts(place.as_ptr(), len) };
                    prop_assert!(seen.iter().all(|&byte| byte == number as u8));
                }
                None => b.rx.release(owed),
            }
        }
    }
}

#[test]
fn a_lying_peer_is_found_out() {
    let (segment, mut a, b) = pair();
    segment.direction(4, 0).credit.post(1000);
    for _ in 0..SLOTS {
        a.tx.send(0, b"x").unwrap();
    }
    assert!(a.tx.send(0, b"x").is_err());
    let slot = &segment.slots(4, 0)[0];
    slot.publish(0, Entry { immediate: 0, len: 5000, pool_offset: None });
    assert!(b.rx.head().is_err());
    slot.publish(0, Entry { immediate: 0, len: 1 << 20, pool_offset: Some(3 << 20) });
    assert!(b.rx.head().is_err());
}
