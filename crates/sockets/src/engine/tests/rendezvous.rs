//! First rendezvous of two processes. Other connections continue a rendezvous whose connection is closed.

use super::harness::{End, Engines, Progress, arrives, fresh_by, meet, next};
use crate::conn::{ApproachStage, Phase};
use crate::rendezvous::StepLock;
use crate::{epoll_sets, pair};
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use std::net::TcpListener;
use std::sync::Arc;

/// Steps after which two ends are on the VI, if nothing comes between.
const TRANSFERS: usize = 16;
/// Steps of a second connection before the first one is closed.
const BESIDE: usize = 8;

/// A step of two ends that talk to and fro.
fn step([a, b]: &[End; 2], n: usize) {
    match n % 4 {
        0 => a.put(b"ping"),
        1 => arrives(&[a, b], b, b"ping"),
        2 => b.put(b"pong"),
        _ => arrives(&[a, b], a, b"pong"),
    }
}

/// Closes the first connection of two processes after so many steps, and has the second one meet, which has begun
/// before or after.
fn closed_after(engines: &Arc<Engines>, steps: usize, is_connector_first: bool, beside: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let [first, second] = [(), ()].map(|()| fresh_by(&listener, engines));
    for n in 0..steps {
        step(&first, n);
    }
    for n in 0..beside {
        step(&second, n);
    }
    let [mut one, mut other] = first;
    if !is_connector_first {
        (one, other) = (other, one);
    }
    one.close();
    other.close();
    for n in beside..beside.next_multiple_of(4) {
        step(&second, n);
    }
    assert!(meet(&second), "after {steps} and {beside} steps, {is_connector_first}");
}

#[test]
fn processes_meet_though_their_first_connection_is_closed_at_any_step() {
    let engines = Engines::take(Progress::ByHand);
    for steps in 0..TRANSFERS {
        for is_connector_first in [true, false] {
            for beside in 0..BESIDE {
                engines.part();
                closed_after(&engines, steps, is_connector_first, beside);
            }
        }
    }
}

/// Opens a connection, sends a request and an answer, and closes both ends, the acceptor's first. Returns true if both
/// ends had the VI.
fn request_and_answer(engines: &Arc<Engines>, listener: &TcpListener) -> bool {
    let ends = fresh_by(listener, engines);
    (0..4).for_each(|n| step(&ends, n));
    let have_met = ends.iter().all(|end| end.phase() == Phase::Attached);
    let [a, b] = ends;
    b.close();
    a.close();
    have_met
}

/// No connection lasts as long as a first rendezvous. Later connections continue the exchange of the first one.
#[test]
fn processes_meet_though_each_connection_ends_after_its_first_answer() {
    let engines = Engines::take(Progress::ByHand);
    // Exchanges of earlier tests may go on.
    engines.part();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!((0..4).any(|_| request_and_answer(&engines, &listener)));
}

/// Has a thread close an end's last descriptor after so many steps, while another one is in a call that may attach
/// the connection. Returns true if the end was not attached by then.
fn let_go_after(engines: &Arc<Engines>, steps: usize, side: usize) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut both = fresh_by(&listener, engines);
    for n in 0..steps {
        step(&both, n);
    }
    both.rotate_left(side);
    let [end, other] = both;
    if end.phase() != Phase::Eligible {
        return false;
    }
    let at = end.at().unwrap();
    // The one thread has come so far,
    end.run(|| at.conn.let_go());
    // and the other one calls.
    for _ in 0..TRANSFERS {
        end.put(b"x");
        assert_eq!(end.read(1), Err(libc::EAGAIN));
        assert_ne!(end.phase(), Phase::Attached, "after {steps} steps");
    }
    end.close();
    let mut bytes = Vec::new();
    loop {
        match next(&[&other], &other).unwrap() {
            some if some.is_empty() => break,
            some => bytes.extend(some),
        }
    }
    assert_eq!(bytes, [b'x'; TRANSFERS], "after {steps} steps");
    true
}

#[test]
fn end_that_its_process_has_let_go_of_is_not_attached() {
    let engines = Engines::take(Progress::ByHand);
    for side in [0, 1] {
        let mut count = 0;
        for is_first in [true, false] {
            // With no bytes under way.
            for steps in (0..TRANSFERS).step_by(2) {
                if is_first {
                    engines.part();
                }
                count += u32::from(let_go_after(&engines, steps, side));
            }
        }
        assert!(count >= 2, "{count} ends were not yet accelerated");
    }
}

/// Returns the pair that a connection has asked for a VI.
fn asked(connector: &End) -> Option<u32> {
    match connector.run(|| connector.at().unwrap().conn.approach.stage()) {
        ApproachStage::Requested { pair, .. } => Some(pair),
        _ => None,
    }
}

/// Has a connection ask for a VI. Returns the pair.
fn asks(connector: &End) -> u32 {
    for _ in 0..TRANSFERS {
        if asked(connector).is_none() {
            connector.put(b"x");
        }
    }
    asked(connector).expect("a request")
}

/// A pair whose process has died is known by its number to a connection that has asked for a VI there. Given to
/// another pair, the number would lead the connection onto the VI of another one.
#[test]
fn pair_keeps_its_number_while_a_connection_has_asked_for_a_vi() {
    let engines = Engines::take(Progress::ByHand);
    engines.part();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let [met, asking, beside] = [(), (), ()].map(|()| fresh_by(&listener, &engines));
    assert!(meet(&met), "the two processes have a pair");
    let [connector, _acceptor] = asking;
    let index = asks(&connector);
    met.into_iter().for_each(End::close);
    let collect = || {
        if let Some(pair) = pair::get(index) {
            // The peer has left.
            pair.segment.side(pair.side ^ 1).gone.store(1, Ordering::Release);
        }
        pair::collect(epoll_sets::forget_pair);
        pair::get(index).is_some()
    };
    assert!(connector.run(collect), "the number is free while it is known");
    connector.close();
    assert!(!beside[0].run(collect), "the pair stays for nothing");
}

/// A connection that has asked for a VI may be idle from then on. Its peer's death ends the request, or the pair
/// stays for ever.
#[test]
fn death_of_a_peer_withdraws_the_request_of_an_idle_connection() {
    let engines = Engines::take(Progress::ByHand);
    engines.part();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let [met, asking] = [(), ()].map(|()| fresh_by(&listener, &engines));
    assert!(meet(&met), "the two processes have a pair");
    let [connector, _acceptor] = asking;
    let index = asks(&connector);
    met.into_iter().for_each(End::close);
    connector.run(|| {
        crate::rendezvous::withdraw_from_dead();
        assert_eq!(asked(&connector), Some(index), "the peer lives");
        let pair = pair::get(index).unwrap();
        pair.segment.side(pair.side ^ 1).gone.store(1, Ordering::Release);
        drop(pair);
        assert!(pair::collect(epoll_sets::forget_pair), "a connection asks a peer that has died");
        crate::rendezvous::withdraw_from_dead();
        assert_eq!(asked(&connector), None);
        assert!(!pair::collect(epoll_sets::forget_pair));
        assert!(pair::get(index).is_none(), "the pair stays for nothing");
    });
    assert_eq!(connector.phase(), Phase::Eligible, "it may still meet");
    connector.close();
}

/// The connector withdraws an unanswered request after a few transfers. The acceptor must find the request before that,
/// also if only one of the two ends sends.
#[test]
fn known_processes_meet_in_every_pattern_of_messages() {
    const MESSAGES: usize = 12;
    /// Returns 0 if the connector sends the message with this number, and 1 if the acceptor does.
    type Sender = fn(usize) -> usize;
    let patterns: [(&str, Sender); 6] = [
        ("only the connector sends", |_| 0),
        ("only the acceptor sends", |_| 1),
        ("the connector sends first, then only the acceptor", |n| usize::from(n > 0)),
        ("the acceptor sends first, then only the connector", |n| usize::from(n == 0)),
        ("the connector begins a ping-pong", |n| n % 2),
        ("the acceptor begins a ping-pong", |n| 1 - n % 2),
    ];
    let engines = Engines::take(Progress::ByHand);
    engines.part();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(meet(&fresh_by(&listener, &engines)), "the two processes have a pair");
    for (name, sender) in patterns {
        let [connector, acceptor] = fresh_by(&listener, &engines);
        let both = [&connector, &acceptor];
        for n in 0..MESSAGES {
            let from = sender(n);
            both[from].put(b"x");
            arrives(&both, both[1 - from], b"x");
        }
        for end in both {
            assert_eq!(end.phase(), Phase::Attached, "{name}");
        }
        connector.close();
        acceptor.close();
    }
}

/// Another thread may take a step of a connection with the same lock just then.
#[test]
fn a_step_whose_lock_is_taken_is_made_up_for() {
    let engines = Engines::take(Progress::ByHand);
    engines.part();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(meet(&fresh_by(&listener, &engines)), "the two processes have a pair");
    let [connector, acceptor] = fresh_by(&listener, &engines);
    let both = [&connector, &acceptor];
    let at = connector.at().unwrap();
    let approach = &at.conn.approach;
    approach.known_after.store(1, Ordering::Relaxed);
    approach.unknown_after.store(1000, Ordering::Relaxed);
    approach.history.store(u32::MAX, Ordering::Relaxed);
    let exchange = |count: usize| {
        for n in 0..count {
            both[n % 2].put(b"x");
            arrives(&both, both[1 - n % 2], b"x");
        }
    };
    let lock = connector.run(|| StepLock::hold(at));
    exchange(6);
    assert_eq!(connector.phase(), Phase::Eligible);
    connector.run(|| drop(lock));
    exchange(6);
    both.iter().for_each(|end| assert_eq!(end.phase(), Phase::Attached));
}

/// An acceptor that sends before it looks for requests has answered, and runs under Sovia.
#[test]
fn connector_names_an_offer_that_was_not_taken_as_the_reason() {
    let engines = Engines::take(Progress::ByHand);
    engines.part();
    engines.meet_after(0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The first connection makes the pair. The second one has a request answered.
    for _ in 0..2 {
        assert!(meet(&fresh_by(&listener, &engines)));
    }
    let [connector, acceptor] = fresh_by(&listener, &engines);
    // Marks the socket as one whose options have the kernel's initial values.
    connector.at().unwrap().conn.approach.fresh.store(1, Ordering::Relaxed);
    connector.put(b"x");
    assert_eq!(connector.phase(), Phase::Attached, "it grants the VI with its request");
    acceptor.put(b"y");
    arrives(&[&connector, &acceptor], &connector, b"y");
    let at = connector.at().unwrap();
    assert_eq!(connector.read(1), Err(libc::EAGAIN));
    assert_eq!(at.conn.stays_for(), Some(Reason::NotTaken));
    arrives(&[&connector, &acceptor], &acceptor, b"x");
}
