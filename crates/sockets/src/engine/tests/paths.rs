//! State that a connection's way to the VI and back leaves behind.

use super::harness::{
    At, End, Engines, Link, NOW, Progress, fresh_by, link, meet, met, pattern, until,
};
use crate::conn::{HasEndpoint, Phase, Role, Stage, flag};
use crate::{loan, retreat};
use core::sync::atomic::Ordering;
use sovia_proto::path::Rx;
use sovia_proto::word;
use std::net::TcpListener;

const ROLES: [Role; 2] = [Role::Connector, Role::Acceptor];

/// A request that outlived its answer would be taken back when the socket is closed. By then another connection may have the VI.
#[test]
fn an_answered_request_is_forgotten() {
    let is_forgotten = |end: &End, at: At| {
        let stage = end.at().map_or(Stage::Idle, |at| at.conn.approach.stage());
        assert!(!matches!(stage, Stage::Requested { .. }), "{at:?}: {stage:?}");
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
        // The first meeting is another one.
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

/// The sender may put what is unread on TCP, and end, before its NIC's answer comes to the receiver. The bytes are on TCP then, though
/// the sender has ended; on the VI they must not be read as well.
#[test]
fn bytes_whose_return_a_nic_accepts_are_read_once() {
    for sender in ROLES {
        let Link { a, b, .. } = link(At::Entered, sender);
        let (sent, more) = (pattern(0, 100_000), pattern(100_000, 5_000));
        a.put(&sent);
        // A NIC holds the other side of the segment from here on, as far as this end knows.
        b.at().unwrap().conn.set(flag::REFLECTED);
        let nic_says = |bits| {
            let at = b.at().unwrap();
            at.attached().unwrap().endpoint_ref().rx.direction().writer.store(word::ANSWER, bits);
        };
        nic_says(word::CONFIRMED);
        a.run(|| retreat::sending(a.fd(), a.at().unwrap()));
        b.leave();
        assert_eq!(b.read(10), Err(libc::EAGAIN), "until the answer nothing is read");
        a.put(&more);
        a.finish();
        nic_says(word::CONFIRMED | word::ACCEPTED);
        let got = b.read_exact(200_000);
        assert!(got == [sent, more].concat(), "{} bytes", got.len());
    }
}
