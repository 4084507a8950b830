use super::*;
use crate::link::{Close, Link, Peer, first_entry};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use sovia_ring::Segment;
use sovia_ring::layout::Words;
use sovia_ring::pool::POOL;
use sovia_ring::ring::{Entry, INLINE};
use via::error::Cause;

/// Returns a sender and a receiver at the two ends of one VI.
fn pair() -> (TxLane, RxLane) {
    let (segment, _fd) = Segment::create().unwrap();
    let link = Arc::new(Link::new(segment, 1, Peer::myself()));
    let here = Arc::new(Attachment::request(&link).unwrap());
    let there = Arc::new(Attachment::accept(&link, here.vi).unwrap());
    (TxLane::new(&here, 1024), RxLane::new(&there))
}

fn path(words: &Words) -> &core::sync::atomic::AtomicU64 {
    &words.0[0]
}

fn receive(rx: &mut RxLane) -> Option<Vec<u8>> {
    let message = rx.head().unwrap()?;
    let mut bytes = vec![0; message.len as usize];
    let to = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the vector has room for `message.len` bytes.
    unsafe { rx.copy(&message, 0, to, message.len) };
    rx.consume(&message).unwrap();
    Some(bytes)
}

#[test]
fn the_count_of_posted_receives_is_exact() {
    let (mut tx, mut rx) = pair();
    assert_eq!(tx.permit(), Ok(Permit::NoReceive));
    for posted in [1, SLOTS, SLOTS + 1, 1000] {
        rx.publish(posted);
        let mut sent = 0;
        let mut send = |tx: &mut TxLane| {
            while tx.permit() == Ok(Permit::Yes) {
                tx.send_inline(b"x", None);
                sent += 1;
            }
            sent
        };
        let ahead = send(&mut tx);
        // The receiver returns entries in batches.
        assert!(ahead > (SLOTS - BATCH).min(posted - 1) && ahead <= posted.min(SLOTS));
        let full = if posted > ahead { Permit::RingFull } else { Permit::NoReceive };
        assert_eq!(tx.permit(), Ok(full));
        for _ in 0..posted {
            assert!(receive(&mut rx).is_some());
            send(&mut tx);
        }
        assert_eq!((send(&mut tx), receive(&mut rx)), (posted, None));
        assert_eq!(tx.permit(), Ok(Permit::NoReceive));
    }
}

#[test]
fn a_message_of_several_entries_takes_one_receive() {
    let (mut tx, mut rx) = pair();
    rx.publish(1);
    assert_eq!(tx.permit(), Ok(Permit::Yes));
    for more in [true, true, false] {
        let (at, _) = tx.place(5000).unwrap().unwrap();
        tx.publish(5000, None, Some(at), more);
    }
    assert_eq!(tx.permit(), Ok(Permit::NoReceive));
    for more in [true, true, false] {
        let piece = rx.head().unwrap().unwrap();
        assert_eq!((piece.len, piece.more), (5000, more));
        rx.consume(&piece).unwrap();
        rx.publish(u32::from(more));
    }
    assert_eq!(tx.permit(), Ok(Permit::NoReceive));
    rx.publish(1);
    assert_eq!(tx.permit(), Ok(Permit::Yes));
    tx.send_written(7 << 20, 9);
    let piece = rx.head().unwrap().unwrap();
    assert_eq!((piece.len, piece.immediate, piece.written), (7 << 20, Some(9), true));
}

#[test]
fn what_was_sent_before_the_end_is_there() {
    let (mut tx, mut rx) = pair();
    rx.publish(2);
    assert_eq!(tx.permit(), Ok(Permit::Yes));
    tx.send_inline(b"last", Some(9));
    tx.attachment().close(Close::Disconnected);
    tx.attachment().close(Close::Broken);
    assert_eq!(rx.peer_closed(), Some(Cause::PeerDisconnected), "the first reason stands");
    assert_eq!(rx.head().unwrap().unwrap().immediate, Some(9));
    assert_eq!(receive(&mut rx).as_deref(), Some(&b"last"[..]));
    assert_eq!(tx.peer_closed(), None);
    rx.attachment().close(Close::NoReceive);
    assert_eq!(tx.peer_closed(), Some(Cause::ReceiveQueueEmpty));
}

#[test]
fn nothing_impossible_is_believed() {
    let (mut tx, rx) = pair();
    for receives in [1025, 1 << 31, u32::MAX] {
        tx.direction().credit.post_receives(receives);
        assert!(tx.permit().is_err(), "{receives} receives");
    }
    tx.direction().credit.post_receives(1024);
    for _ in 0..SLOTS {
        assert_eq!(tx.permit(), Ok(Permit::Yes));
        tx.send_inline(b"x", None);
    }
    let first = first_entry(0);
    for entries in [2 * SLOTS + 1, 1 << 31, SLOTS - 1] {
        tx.direction().credit.post(first.wrapping_add(entries));
        assert!(tx.permit().is_err(), "{entries} entries");
    }
    tx.place(1 << 16).unwrap().unwrap();
    tx.direction().credit.release(1 << 20);
    for _ in 0..40 {
        let _ = tx.place(1 << 16);
    }
    assert!(tx.place(1 << 16).is_err(), "more released than was ever placed");

    let publish = |len: u32, pool_offset| {
        rx.half().slot(first).publish(first, Entry { immediate: 0, len, pool_offset });
        rx.head()
    };
    let pool = POOL as u32;
    assert!(publish(INLINE as u32, None).is_ok());
    assert!(publish(INLINE as u32 + 1, None).is_err());
    assert!(publish(FRAGMENT as u32, Some(pool - FRAGMENT as u32)).is_ok());
    assert!(publish(FRAGMENT as u32 + 1, Some(0)).is_err());
    assert!(publish(64, Some(pool - 63)).is_err());
    assert!(publish(64, Some(u32::MAX)).is_err());
    assert!(publish(8 | 1 << 23, None).is_err(), "an unknown flag");
    assert!(publish(WRITTEN, None).is_err(), "a note without its number");
    assert!(publish(WRITTEN | IMMEDIATE | 8, None).is_err(), "a note with bytes of its own");

    path(&tx.direction().path).store(77, Ordering::Relaxed);
    assert!(matches!(rx.peer_closed(), Some(Cause::Corrupt(_))));
}
