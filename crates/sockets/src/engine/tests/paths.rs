//! State that a connection's way to the VI and back leaves behind.

use super::harness::{
    At, End, Engines, Link, NOW, Progress, exchange, fresh_by, link, meet, met, met_as, pattern,
    until,
};
use crate::conn::{ApproachStage, HasEndpoint, Phase, Role, flag};
use crate::ops::Flags;
use crate::stream::undelivered;
use crate::{fallback, kernel_sockets, loan, table};
use core::sync::atomic::Ordering;
use sovia_proto::path::{Rx, Seen};
use sovia_proto::word;
use sovia_sys::{UserSliceMut, call, poll};
use std::net::TcpListener;

const ROLES: [Role; 2] = [Role::Connector, Role::Acceptor];

/// A request that outlived its answer would be taken back when the socket is closed. By then another connection may
/// have the VI.
#[test]
fn an_answered_request_is_forgotten() {
    let is_forgotten = |end: &End, at: At| {
        let stage = end.at().map_or(ApproachStage::Idle, |at| at.conn.approach.stage());
        assert!(!matches!(stage, ApproachStage::Requested { .. }), "{at:?}: {stage:?}");
    };
    for sender in ROLES {
        for at in [At::Granted, At::Entered, At::Back] {
            link(at, sender).ends().into_iter().for_each(|end| is_forgotten(end, at));
        }
    }
    // With its first transfer a connector would make no request that it waits for.
    for after in [0, 2] {
        let engines = Engines::take(Progress::ByHand);
        engines.part();
        engines.meet_after(after);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The first rendezvous belongs to another connection.
        for _ in 0..2 {
            let ends = fresh_by(&listener, &engines);
            assert!(meet(&ends));
            ends.iter().for_each(|end| is_forgotten(end, At::Entered));
        }
    }
}

#[test]
fn an_end_that_only_receives_becomes_an_ordinary_socket_when_both_directions_are_back() {
    for sender in ROLES {
        let Link { a, b, unread } = link(At::Draining, sender);
        assert_eq!((b.phase(), b.rx()), (Phase::Attached, Rx::Back));
        let mut got = Vec::new();
        until(&[&a], || {
            got.extend(b.read(unread.len()).unwrap_or_default());
            (b.phase() == Phase::Plain).then_some(())
        });
        assert!(got == unread);
    }
}

/// With a window of one message the acknowledgement of the last one goes before what ends the VI's part.
#[test]
fn nothing_is_to_read_where_the_vi_ends_behind_an_acknowledgement() {
    for side in 0..2 {
        let mut both = met_as("copy,w=1,t=1");
        both.rotate_left(side);
        let [a, b] = &both;
        let set = b.epoll();
        set.add(b, libc::EPOLLIN);
        b.put(b"x");
        assert_eq!(a.read(1), Ok(vec![b'x']));
        a.leave();
        assert_eq!(b.poll(libc::POLLIN), 0, "side {side}");
        assert_eq!(set.now(), [], "side {side}");
        assert_eq!(b.read(1), Err(libc::EAGAIN));
    }
}

#[test]
fn a_lent_place_goes_with_the_bytes_that_a_commit_sends() {
    let [a, b] = met();
    let lent = || a.at().unwrap().conn.loans.load(Ordering::Relaxed);
    for len in [1, 100, 5_000, loan::MAX] {
        let mut place = a.run(|| loan::lend(a.fd(), len)).unwrap();
        assert!(place.is_in_place());
        assert_eq!(lent(), 1);
        // SAFETY: memory of the loan's length, lent to be written to.
        unsafe { place.memory().copy_from(pattern(0, len).as_ptr(), len) };
        assert_eq!(a.run(|| loan::commit(a.fd(), &mut place, len, NOW)), Ok(len));
        assert!(place.is_spent());
        assert_eq!(lent(), 0);
        assert_eq!(b.drain(len), (pattern(0, len), Err(libc::EAGAIN)));
    }
}

/// Publishes what the sender's NIC answers.
fn nic_stores(to: &End, bits: u64) {
    let at = to.at().unwrap();
    let guard = at.attached().unwrap();
    guard.endpoint_ref().rx.direction().writer.store(word::ANSWER, word::CONFIRMED | bits);
}

/// A connection whose receiver takes a NIC's for its peer's segment, and goes back after `asks`. The sender has left
/// the VI, with bytes unread.
fn going_back_between_hosts(sender: Role, asks: impl Fn(&End)) -> Link {
    let Link { a, b, .. } = link(At::Entered, sender);
    let unread = pattern(0, 100_000);
    a.put(&unread);
    b.at().unwrap().conn.set(flag::REFLECTED);
    nic_stores(&b, 0);
    asks(&b);
    a.run(|| fallback::sending(a.fd(), a.at().unwrap()));
    b.leave();
    Link { a, b, unread }
}

/// The sender may put what is unread on TCP, and end, before its NIC's answer comes. The bytes are on TCP then,
/// though the sender has ended; on the VI they must not be read as well.
#[test]
fn bytes_whose_return_a_nic_accepts_are_read_once() {
    for sender in ROLES {
        let Link { a, b, unread } = going_back_between_hosts(sender, |_| {});
        assert_eq!(b.read(10), Err(libc::EAGAIN), "before the answer");
        let more = pattern(unread.len(), 5_000);
        a.put(&more);
        a.finish();
        nic_stores(&b, word::ACCEPTED);
        let got = b.read_exact(200_000);
        assert!(got == [unread, more].concat(), "{} bytes", got.len());
    }
}

/// Between hosts, TCP may overtake the words of the VI. A receiver that has not granted the VI reports an end of TCP at
/// once, because the sender cannot have switched. A later grant would take the report back.
#[test]
fn reported_end_of_a_peer_on_another_host_is_not_hidden_by_a_grant() {
    for sender in ROLES {
        let Link { a, b, .. } = link(At::Granted, sender);
        b.at().unwrap().conn.set(flag::REFLECTED);
        b.at().unwrap().conn.set_rx(Rx::Tcp);
        a.finish();
        {
            // The NIC has not delivered these words yet.
            let at = b.at().unwrap();
            let guard = at.attached().unwrap();
            let direction = guard.endpoint_ref().rx.direction();
            direction.writer.store(word::FIN, 0);
            direction.path.store(word::GRANT, 0);
        }
        assert_eq!(b.poll_for(libc::POLLIN, None), Ok(libc::POLLIN));
        assert_eq!(b.take(1, Flags { peek: true, dont_wait: true, ..NOW }), Ok(vec![]));
        assert_eq!((b.read(1), b.rx()), (Ok(vec![]), Rx::Tcp));
    }
}

/// A failure of one call is no end of TCP, so the call does not wait for the peer's last bytes on the VI.
#[test]
fn bad_address_is_reported_at_once_while_a_nic_may_deliver_bytes() {
    for sender in ROLES {
        let Link { a, b, unread } = link(At::Granted, sender);
        b.at().unwrap().conn.set(flag::REFLECTED);
        let bytes = pattern(unread.len(), 100);
        assert_eq!(call::send(a.fd(), &bytes[..], 0), Ok(100));
        // SAFETY: the address belongs to nothing in this process, and the kernel checks it.
        let nowhere = || unsafe { UserSliceMut::new(core::ptr::without_provenance_mut(8), 100) };
        // Nagle's algorithm may hold the bytes back for a moment.
        until(&[&b], || (call::bytes_unread(b.fd()) == Ok(100)).then_some(()));
        for flags in [NOW, Flags { peek: true, ..NOW }, Flags::default()] {
            assert_eq!(b.receive(nowhere(), flags), Err(libc::EFAULT), "{flags:?}");
        }
        assert_eq!(b.read_exact(unread.len() + 100), [unread, bytes].concat());
    }
}

/// A receiver whose patience was over has asked for nothing. That is what the NIC has accepted, and the bytes stay on
/// the VI.
#[test]
fn bytes_that_the_sender_does_not_return_are_read_on_the_vi() {
    for sender in ROLES {
        let Link { a, b, unread } = going_back_between_hosts(sender, |b| {
            b.run(|| undelivered::answer(&b.at().unwrap().attached().unwrap(), Seen::Impatient, 0));
            nic_stores(b, word::ACCEPTED);
        });
        let more = pattern(unread.len(), 5_000);
        a.put(&more);
        let got = b.read_exact(unread.len());
        assert!(got == unread, "{} bytes", got.len());
        assert_eq!(b.read_exact(more.len()), more);
    }
}

/// Otherwise each arrival on TCP wakes the progress thread, which makes TCP slower than without Sovia.
#[test]
fn arrivals_wake_no_progress_thread_once_the_connection_is_back_on_tcp() {
    for has_duplicate in [false, true] {
        let [a, b] = &met();
        let _duplicates = has_duplicate.then(|| [a.dup(), b.dup()]);
        a.leave();
        while [a, b].iter().any(|end| end.phase() != Phase::Plain) {
            exchange(a, b);
            [a, b].iter().for_each(|end| end.round());
        }
        for (from, to) in [(a, b), (b, a)] {
            // An event of the fallback may still wait.
            [a, b].iter().for_each(|end| end.round());
            from.put(b"message");
            until(&[], || (call::bytes_unread(to.fd()) == Ok(7)).then_some(()));
            let watching = to.run(kernel_sockets::watching).expect("an instance");
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
            let reported = poll::epoll_wait(watching, &mut events, Some(0), None).unwrap();
            assert_eq!(reported, 0, "with a duplicate: {has_duplicate}");
            assert_eq!(to.read(7), Ok(b"message".to_vec()));
        }
    }
}

/// The kernel's instance keeps a socket under the number of a closed descriptor, and then nothing can remove it.
#[test]
fn a_socket_is_watched_by_another_descriptor_before_its_first_one_is_closed() {
    let [_a, b] = &met();
    b.run(|| {
        let at = table::conn(b.fd()).unwrap();
        let _guard = at.attached().unwrap();
        kernel_sockets::watch_at_once(at.conn);
    });
    let duplicate = b.dup();
    assert!(!b.run(|| kernel_sockets::leave(duplicate.fd())));
    b.close_number();
    assert!(b.run(|| kernel_sockets::leave(duplicate.fd())));
}
