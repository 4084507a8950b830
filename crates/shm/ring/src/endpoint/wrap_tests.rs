//! Entry numbers have 32 bits. After 2^32 entries a VI's numbers wrap around to 0. These tests check that the VI
//! continues.

use super::*;
use crate::ring::{Entry, SLOTS};

/// Returns the sender and the receiver of a direction that has already carried `n` entries.
fn after(n: u32) -> (Segment, Sender, Receiver) {
    let (segment, _fd) = Segment::create().unwrap();
    segment.recycle(4, false);
    // SAFETY: the segment is returned with the halves and outlives them in each test. One thread uses them.
    let (Endpoint { mut tx, .. }, Endpoint { mut rx, .. }) =
        unsafe { (Endpoint::new(&segment, 4, 0), Endpoint::new(&segment, 4, 1)) };
    for i in 1..=SLOTS {
        let earlier = n.wrapping_sub(i);
        let entry = Entry { immediate: 0, len: 0, pool_offset: None };
        segment.slots(4, 0)[(earlier % SLOTS) as usize].publish(earlier, entry);
    }
    (tx.entries.next, tx.entries.credit) = (n, n.wrapping_add(SLOTS));
    (rx.next, rx.posted) = (n, n.wrapping_add(SLOTS));
    rx.repair();
    (segment, tx, rx)
}

fn receive(rx: &mut Receiver, number: u32) {
    let entry = rx.head().unwrap().expect("it has been sent");
    assert_eq!(entry.immediate, number);
    let mut out = vec![0; entry.len as usize];
    rx.copy_head(&entry, 0, &mut out[..]).unwrap();
    assert!(out.iter().all(|&byte| byte == number as u8));
    if let Some(position) = rx.advance(&entry).unwrap() {
        rx.release(position);
    }
}

/// Sends up to `burst` messages at a time. The wrap-around falls on different positions of a burst.
#[test]
fn messages_arrive_whole_and_in_order_while_the_numbers_wrap() {
    for burst in 1..=SLOTS {
        for before in [1, 2, burst, SLOTS - 1, SLOTS, SLOTS + 1, 2 * SLOTS - burst] {
            let (_segment, mut tx, mut rx) = after(0u32.wrapping_sub(before));
            let (mut sent, mut received) = (0u32, 0u32);
            while received < 3 * SLOTS {
                while sent - received < burst {
                    // Messages of 5 bytes travel in their entries, those of 200 bytes in the pool.
                    let len = if sent.is_multiple_of(3) { 200 } else { 5 };
                    if !tx.send(sent, &vec![sent as u8; len][..]).unwrap() {
                        break;
                    }
                    sent += 1;
                }
                assert!(sent > received, "the window stays closed");
                tx.audit().unwrap();
                rx.audit().unwrap();
                assert_eq!(rx.queued(|_| true) > 0, sent > received);
                while received < sent {
                    receive(&mut rx, received);
                    received += 1;
                }
                assert!(rx.awaits_message() && rx.head().unwrap().is_none());
            }
            assert_eq!(rx.received(), tx.sent());
        }
    }
}

#[test]
fn full_ring_is_full_and_a_lie_is_a_lie_while_the_numbers_wrap() {
    for before in 0..2 * SLOTS {
        let (segment, mut tx, mut rx) = after(0u32.wrapping_sub(before));
        for number in 0..SLOTS {
            assert!(tx.send(number, &[number as u8]).unwrap());
        }
        assert!(!tx.send(SLOTS, &[0]).unwrap(), "no receive is posted");
        assert_eq!(rx.queued(|_| true), SLOTS as usize);
        (0..CREDIT_BATCH).for_each(|number| receive(&mut rx, number));
        assert!(tx.send(SLOTS, &[SLOTS as u8]).unwrap());

        // More receives than the ring has entries, and fewer than the sender has used.
        let (next, credit) = (tx.entries.next, &segment.direction(4, 0).credit);
        for posted in [next.wrapping_add(SLOTS + 1), next.wrapping_sub(1)] {
            credit.post(posted);
            tx.entries.credit = next;
            assert!(tx.send(0, &[]).is_err(), "{posted} posted, {next} sent");
        }
    }
}

/// Tests the state after a sender has died between publishing an entry and counting the entry.
#[test]
fn repaired_sender_counts_the_entries_that_are_there_while_the_numbers_wrap() {
    for before in 0..2 * SLOTS {
        let start = 0u32.wrapping_sub(before);
        let (_segment, mut tx, _rx) = after(start);
        tx.repair();
        assert_eq!(tx.sent(), start);
        assert!(tx.send(1, b"x").unwrap());
        tx.entries.next = start;
        tx.repair();
        assert_eq!(tx.sent(), start.wrapping_add(1));
    }
}
