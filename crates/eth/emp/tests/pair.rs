//! Tests of two stations in one process, over UDP on loopback.

use crate::common::{Bytes, open, pair};
use core::time::Duration;
use emp_eth::{Config, DESCRIPTORS, Misuse, Mode, PostError, Station, Status};
use sovia_port::impair::Faults;

/// Time limit that ends a hanging test.
const LONG: Option<Duration> = Some(Duration::from_secs(120));

fn each_mode(test: impl Fn(Mode)) {
    test(Mode::Calls);
    test(Mode::Thread { processor: None });
}

#[test]
fn messages_of_many_lengths_come_whole() {
    each_mode(|mode| {
        let (one, other) = pair(mode, |_| ());
        for len in [0, 1, 4, 1400, 1401, 1472, 5000, 100_000, 3_000_000] {
            let (message, room) = (Bytes::pattern(len), Bytes::zeroed(len + 9));
            let receive = room.receive(&other, Some(0), Some(7));
            let send = message.send(&one, 0, 7);
            let came = other.wait(receive, LONG).unwrap().unwrap();
            assert_eq!((came.status, came.length as usize), (Status::Done, len));
            assert_eq!(room.bytes()[..len], message.bytes()[..]);
            assert_eq!(room.bytes()[len..], [0; 9]);
            assert_eq!(one.wait(send, LONG).unwrap().unwrap().status, Status::Done);
        }
        assert_eq!((one.free_descriptors(), other.free_descriptors()), (DESCRIPTORS, DESCRIPTORS));
    });
}

#[test]
fn messages_come_without_a_call_in_between() {
    each_mode(|mode| {
        let (one, other) = pair(mode, |_| ());
        let (message, room) = (Bytes::pattern(200_000), Bytes::zeroed(200_000));
        let receive = room.receive(&other, None, None);
        let send = message.send(&one, 0, 1);
        // Neither station makes a call until the last byte has arrived.
        while room.bytes().last() != message.bytes().last() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(other.wait(receive, LONG).unwrap().is_some());
        assert!(one.wait(send, LONG).unwrap().is_some());
    });
}

#[test]
fn everything_comes_over_a_bad_network() {
    each_mode(|mode| {
        let (one, other) = pair(mode, |config| {
            config.faults = Some(Faults { seed: 5, ..Faults::each(30_000) });
        });
        for round in 0..10u8 {
            let message = Bytes::pattern(70_000 + usize::from(round));
            let (room, back) = (Bytes::zeroed(message.bytes().len()), Bytes::zeroed(3));
            let receive = room.receive(&other, Some(0), Some(1));
            let answer = back.receive(&one, Some(0), Some(2));
            let send = message.send(&one, 0, 1);
            assert_eq!(other.wait(receive, LONG).unwrap().unwrap().status, Status::Done);
            assert_eq!(room.bytes(), message.bytes());
            let word = Bytes::pattern(3);
            let said = word.send(&other, 0, 2);
            assert_eq!(one.wait(answer, LONG).unwrap().unwrap().status, Status::Done);
            assert_eq!(back.bytes(), word.bytes());
            assert!(one.wait(send, LONG).unwrap().is_some());
            assert!(other.wait(said, LONG).unwrap().is_some());
        }
    });
}

#[test]
fn full_array_refuses_posts_and_empties_again() {
    each_mode(|mode| {
        let (one, other) = pair(mode, |_| ());
        let word = Bytes::pattern(8);
        let mut sends = Vec::new();
        let why = loop {
            match word.try_send(&one, 0, 3) {
                Ok(send) => sends.push(send),
                Err(why) => break why,
            }
        };
        assert_eq!((why, sends.len()), (PostError::Full, DESCRIPTORS));
        assert_eq!(one.test(sends[0]), Ok(None));
        let rooms: Vec<_> = (0..DESCRIPTORS).map(|_| Bytes::zeroed(8)).collect();
        let receives: Vec<_> = rooms.iter().map(|room| room.receive(&other, None, None)).collect();
        for (receive, room) in receives.into_iter().zip(&rooms) {
            assert_eq!(other.wait(receive, LONG).unwrap().unwrap().status, Status::Done);
            assert_eq!(room.bytes(), word.bytes());
        }
        for send in sends {
            assert_eq!(one.wait(send, LONG).unwrap().unwrap().status, Status::Done);
            assert_eq!(one.test(send), Err(Misuse));
        }
        assert_eq!((one.free_descriptors(), other.free_descriptors()), (DESCRIPTORS, DESCRIPTORS));
    });
}

#[test]
fn another_key_is_not_answered() {
    each_mode(|mode| {
        let short = |config: &mut Config| config.timing.tries = Some(6);
        let (one, other) = (open(mode, short), open(mode, short));
        one.add_peer(&other.address(), other.key() + 1).unwrap();
        other.add_peer(&one.address(), one.key()).unwrap();
        let (word, room) = (Bytes::pattern(4), Bytes::zeroed(4));
        let receive = room.receive(&other, None, None);
        let send = word.send(&one, 0, 0);
        assert_eq!(one.wait(send, LONG).unwrap().unwrap().status, Status::PeerDead);
        assert_eq!(other.test(receive), Ok(None));
        other.cancel(receive).unwrap();
        assert_eq!(other.wait(receive, LONG).unwrap().unwrap().status, Status::Cancelled);
    });
}

#[test]
fn a_peer_that_is_another_station_by_now_is_told_apart() {
    each_mode(|mode| {
        let (one, other) = pair(mode, |_| ());
        let (word, room) = (Bytes::pattern(4), Bytes::zeroed(4));
        let place = other.address();
        for round in 0..3 {
            let receive = room.receive(&other, None, None);
            let send = word.send(&one, 0, 0);
            assert_eq!(other.wait(receive, LONG).unwrap().unwrap().status, Status::Done, "{round}");
            assert_eq!(one.wait(send, LONG).unwrap().unwrap().status, Status::Done);
        }
        let unmatched = word.send(&one, 0, 9);
        drop(other);
        let other = Station::open(&Config {
            mode,
            ..Config::new(format!("udp:{place}").parse().unwrap(), crate::common::KEY)
        })
        .unwrap();
        other.add_peer(&one.address(), crate::common::KEY).unwrap();
        let ended = one.wait(unmatched, LONG).unwrap().unwrap();
        assert_eq!(ended.status, Status::PeerRestarted);
        let receive = room.receive(&other, None, None);
        let send = word.send(&one, 0, 0);
        assert_eq!(other.wait(receive, LONG).unwrap().unwrap().status, Status::Done);
        assert_eq!(one.wait(send, LONG).unwrap().unwrap().status, Status::Done);
    });
}

#[test]
fn a_dropped_station_ends_what_was_posted_and_leaves_memory_alone() {
    each_mode(|mode| {
        let (one, other) = pair(mode, |_| ());
        let room = Bytes::zeroed(100);
        let receive = room.receive(&other, None, None);
        assert_eq!(other.test(receive), Ok(None));
        drop(other);
        let word = Bytes::pattern(4);
        let send = word.send(&one, 0, 0);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(one.test(send), Ok(None));
        drop(one);
        assert_eq!(room.bytes(), [0; 100]);
    });
}

#[test]
fn many_threads_post_and_wait_at_the_same_time() {
    each_mode(|mode| {
        let (one, other) = pair(mode, |_| ());
        std::thread::scope(|scope| {
            for tag in 0..6u32 {
                let (one, other) = (&one, &other);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let word = Bytes::pattern(50);
                        let send = word.send(one, 0, tag);
                        assert!(one.wait(send, LONG).unwrap().is_some());
                    }
                });
                scope.spawn(move || {
                    for _ in 0..200 {
                        let room = Bytes::zeroed(50);
                        let receive = room.receive(other, Some(0), Some(tag));
                        assert_eq!(other.wait(receive, LONG).unwrap().unwrap().length, 50);
                        assert_eq!(room.bytes(), Bytes::pattern(50).bytes());
                    }
                });
            }
        });
    });
}

#[test]
fn a_station_sends_to_itself() {
    each_mode(|mode| {
        let one = open(mode, |_| ());
        let own = one.add_peer(&one.address(), one.key()).unwrap();
        let (message, room) = (Bytes::pattern(50_000), Bytes::zeroed(50_000));
        let receive = room.receive(&one, Some(own), Some(1));
        let send = message.send(&one, own, 1);
        assert_eq!(one.wait(receive, LONG).unwrap().unwrap().status, Status::Done);
        assert_eq!(one.wait(send, LONG).unwrap().unwrap().status, Status::Done);
        assert_eq!(room.bytes(), message.bytes());
    });
}

#[test]
fn a_waiting_thread_is_woken_by_any_end() {
    let (one, other) = pair(Mode::Calls, |_| ());
    let since = other.ended();
    assert!(!other.wait_for_another(since, Some(Duration::from_millis(20))));
    let room = Bytes::zeroed(4);
    let receive = room.receive(&other, None, None);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.wait_for_another(since, LONG));
        std::thread::sleep(Duration::from_millis(20));
        let word = Bytes::pattern(4);
        let send = word.send(&one, 0, 0);
        assert!(waiter.join().unwrap());
        assert!(one.wait(send, LONG).unwrap().is_some());
    });
    assert!(other.test(receive).unwrap().is_some());
}
