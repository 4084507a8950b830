use super::*;
use crate::Segment;
use crate::connect::link::{Close, Link};
use crate::layout::Words;

/// A sender and a receiver at the two ends of one VI.
fn pair() -> (TxLane, RxLane) {
    let (segment, _fd) = Segment::create().unwrap();
    let link = Arc::new(Link::new(segment, 1, [0; 16], None, None));
    let here = Arc::new(Attachment::request(&link).unwrap());
    let there = Arc::new(Attachment::accept(&link, here.vi).unwrap());
    (TxLane::new(&here), RxLane::new(&there))
}

fn path(words: &Words) -> &core::sync::atomic::AtomicU64 {
    &words.0[0]
}

fn receive(rx: &mut RxLane, outstanding: u32) -> Option<Vec<u8>> {
    let message = rx.head().unwrap()?;
    let mut bytes = vec![0; message.len as usize];
    let to = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the vector has as many bytes.
    unsafe { rx.copy(&message, 0, to, message.len) };
    rx.consume(&message, outstanding).unwrap();
    Some(bytes)
}

#[test]
fn the_count_of_posted_receives_is_exact() {
    let (mut tx, mut rx) = pair();
    assert_eq!(tx.permit(), Ok(Permit::NoReceive));
    for posted in [1, SLOTS, SLOTS + 1, 1000] {
        rx.publish(posted);
        let mut sent = 0;
        while tx.permit() == Ok(Permit::Yes) {
            tx.send_inline(b"x", None);
            sent += 1;
        }
        assert_eq!(sent, posted.min(SLOTS));
        let full = if posted > SLOTS { Permit::RingFull } else { Permit::NoReceive };
        assert_eq!(tx.permit(), Ok(full));
        // One is taken: one more fits if a receive is posted for it.
        for left in (0..posted).rev() {
            assert!(receive(&mut rx, left).is_some());
            if tx.permit() == Ok(Permit::Yes) {
                tx.send_inline(b"x", None);
                sent += 1;
            }
        }
        assert_eq!((sent, receive(&mut rx, 0)), (posted, None));
        assert_eq!(tx.permit(), Ok(Permit::NoReceive));
    }
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
    assert_eq!(receive(&mut rx, 1).as_deref(), Some(&b"last"[..]));
    assert_eq!(tx.peer_closed(), None);
    rx.attachment().close(Close::NoReceive);
    assert_eq!(tx.peer_closed(), Some(Cause::ReceiveQueueEmpty));
}

#[test]
fn nothing_impossible_is_believed() {
    let (mut tx, rx) = pair();
    for posted in [SLOTS + 1, 1 << 31, u32::MAX] {
        tx.half.direction().credit.post(posted);
        assert!(tx.permit().is_err(), "{posted} receives");
    }
    tx.half.direction().credit.post(1);
    assert_eq!(tx.permit(), Ok(Permit::Yes));
    tx.place(1 << 16).unwrap().unwrap();
    tx.half.direction().credit.release(1 << 20);
    for _ in 0..40 {
        let _ = tx.place(1 << 16);
    }
    assert!(tx.place(1 << 16).is_err(), "more released than was ever placed");

    let publish = |len: u32, pool_offset| {
        tx.half.slot(0).publish(0, Entry { immediate: 0, len, pool_offset });
        rx.head()
    };
    let pool = POOL as u32;
    assert!(publish(INLINE as u32, None).is_ok());
    assert!(publish(INLINE as u32 + 1, None).is_err());
    assert!(publish(MESSAGE_MAX as u32, Some(pool - MESSAGE_MAX as u32)).is_ok());
    assert!(publish(MESSAGE_MAX as u32 + 1, Some(0)).is_err());
    assert!(publish(64, Some(pool - 63)).is_err());
    assert!(publish(64, Some(u32::MAX)).is_err());
    assert!(publish(8 | 1 << 21, None).is_err(), "an unknown flag");

    path(&tx.half.direction().path).store(77, Ordering::Relaxed);
    assert!(matches!(rx.peer_closed(), Some(Cause::Damaged(_))));
}
