//! Tests of EMP's properties, in the order of the paper's sections.

use crate::sim::world::{FRAME_MAX, World, kept};
use core::time::Duration;
use sovia_emp::array::{DESCRIPTORS, MESSAGE_MAX, PIECE_MAX};
use sovia_emp::wire::{Body, OVERHEAD, WHOLE};
use sovia_emp::{Array, Host, Misuse, Outcome, Piece, PostError, Status};
use sovia_simnet::{Link, Net};

/// Bytes of a message in a full frame.
const SIZE: usize = FRAME_MAX - OVERHEAD;

fn two() -> World {
    let mut world = World::new(1, Link::perfect(), 2);
    world.kept = Some(Vec::new());
    world
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn done(node: u16, tag: u32, length: usize) -> Option<Outcome> {
    Some(Outcome { status: Status::Done, node, tag, length: length as u32 })
}

#[test]
fn a_message_comes_where_a_receive_was_posted() {
    for len in [0, 1, 4, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE, 3 * SIZE + 1, 100_000] {
        let mut world = two();
        let message = pattern(len);
        let (receive, at) = world.receive(1, Some(0), Some(7), len + 5);
        let send = world.send(0, 1, 7, &message);
        assert_eq!(world.test(1, receive), None);
        world.run();
        assert_eq!(world.test(0, send), done(1, 7, len));
        assert_eq!(world.test(1, receive), done(0, 7, len));
        assert_eq!(world.bytes(1, at, len), message);
        assert_eq!(
            world.bytes(1, at + len as u64, 5),
            [0; 5],
            "beyond the message nothing is written"
        );
        for station in &world.stations {
            assert_eq!((station.free(), station.engine.busy_peers()), (DESCRIPTORS, 0));
        }
    }
}

/// Section 4.1: only the first frame has the message's properties. Every frame names message and number.
#[test]
fn only_the_first_frame_says_what_the_message_is_like() {
    let mut world = two();
    world.receive(1, None, None, 10_000);
    world.send(0, 1, 9, &pattern(2 * SIZE + 10));
    world.run();
    let mut numbers = Vec::new();
    for (_, _, frame) in kept(&world) {
        if let Body::Data { head, message, bytes, .. } = frame.body {
            assert_eq!((head.id, message.is_some()), (0, head.number == 0));
            if let Some(message) = message {
                assert_eq!(
                    (message.total as usize, message.frames, message.tag),
                    (2 * SIZE + 10, 3, 9)
                );
            }
            numbers.push((head.number, bytes.len()));
        }
    }
    assert_eq!(numbers, [(0, SIZE), (1, SIZE), (2, 10)]);
}

/// Section 4.1: one acknowledgement covers three frames. It contains the header of the last of them.
#[test]
fn a_collection_is_acknowledged_once() {
    for collection in [1, 3, 8] {
        let mut world = two();
        world.stations[0].engine.set_collection(collection);
        world.receive(1, None, None, 30 * SIZE);
        world.send(0, 1, 0, &pattern(20 * SIZE));
        world.run();
        let acks: Vec<_> = kept(&world)
            .filter_map(|(from, _, frame)| match frame.body {
                Body::Ack { ack, .. } => Some((from, ack)),
                _ => None,
            })
            .collect();
        assert_eq!(acks.len(), 20usize.div_ceil(collection.into()), "{collection}");
        for (place, (from, ack)) in acks.iter().enumerate() {
            let last = ((place as u32 + 1) * u32::from(collection)).min(20) - 1;
            assert_eq!((*from, ack.number), (1, last));
        }
        assert_eq!(acks.last().unwrap().1.below, WHOLE);
    }
}

#[test]
fn an_answer_carries_the_acknowledgement() {
    let mut world = two();
    for round in 0..10 {
        let (ping, _) = world.receive(1, None, None, 4);
        let (pong, _) = world.receive(0, None, None, 4);
        world.send(0, 1, 0, b"ping");
        while world.test(1, ping).is_none() {
            assert!(world.step());
        }
        let _ = (pong, round);
        world.send(1, 0, 0, b"pong");
        world.run();
    }
    // The simulation acknowledges at once. In the last exchange, the acknowledgement travels alone.
    assert!(kept(&world).any(|(_, _, frame)| matches!(frame.body, Body::Ack { .. })));
}

/// Section 3.1.1: without a receive, the NIC drops a frame, and the sender repeats the message.
#[test]
fn a_message_without_a_receive_waits_at_its_sender() {
    let mut world = two();
    let message = pattern(5 * SIZE);
    let send = world.send(0, 1, 3, &message);
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.test(0, send), None, "a receiver that is there is no dead peer");
    let (receive, at) = world.receive(1, Some(0), Some(3), 5 * SIZE);
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.test(1, receive), done(0, 3, 5 * SIZE), "it is called for at once");
    assert_eq!(world.bytes(1, at, 5 * SIZE), message);
    world.run();
    assert_eq!(world.test(0, send), done(1, 3, 5 * SIZE));
}

#[test]
fn receives_are_met_in_the_order_in_which_they_were_posted() {
    let mut world = World::new(1, Link::perfect(), 3);
    let wanted =
        [(Some(2), Some(5)), (None, Some(5)), (Some(1), None), (None, None), (Some(1), Some(5))];
    let receives = wanted.map(|(from, tag)| world.receive(0, from, tag, 16).0);
    for (from, tag) in [(1, 5), (1, 6), (2, 5), (1, 5), (1, 5)] {
        world.send(from, 0, tag, &[from as u8]);
        world.run();
    }
    let met = receives.map(|receive| world.test(0, receive).map(|it| (it.node, it.tag)));
    assert_eq!(met, [Some((2, 5)), Some((1, 5)), Some((1, 6)), Some((1, 5)), Some((1, 5))]);
}

#[test]
fn messages_with_one_tag_never_overtake_each_other() {
    let mut world = two();
    let sends: Vec<_> = (0..200u32).map(|at| world.send(0, 1, 1, &at.to_be_bytes())).collect();
    world.run_for(Duration::from_millis(50));
    for expected in 0..200u32 {
        let (receive, at) = world.receive(1, Some(0), None, 4);
        while world.test(1, receive).is_none() {
            assert!(world.step());
        }
        assert_eq!(world.bytes(1, at, 4), expected.to_be_bytes());
    }
    // The receiver requests the first waiting message at once. Most messages that wait after it are not sent in vain.
    assert!(world.net.now().nanos() < 100_000_000 && world.counters(1).dropped < 1500);
    world.run();
    assert!(sends.into_iter().all(|send| world.test(0, send) == done(1, 1, 4)));
}

/// Sends more messages than the receiver can remember.
#[test]
fn a_full_array_of_messages_is_received_one_by_one() {
    let mut world = two();
    for at in 0..DESCRIPTORS as u32 {
        world.send(0, 1, at % 2, &at.to_be_bytes());
    }
    world.run_for(Duration::from_secs(3));
    let begun = world.net.now();
    for expected in (0..DESCRIPTORS as u32).step_by(2).chain((1..DESCRIPTORS as u32).step_by(2)) {
        let (receive, at) = world.receive(1, None, Some(expected % 2), 4);
        while world.test(1, receive).is_none() {
            assert!(world.step());
        }
        assert_eq!(world.bytes(1, at, 4), expected.to_be_bytes());
    }
    assert!(world.net.now().since(begun) < Duration::from_millis(200));
}

#[test]
fn a_message_with_another_tag_may_overtake() {
    let mut world = two();
    let first = world.send(0, 1, 1, b"first");
    let second = world.send(0, 1, 2, b"second");
    let (receive, _) = world.receive(1, None, Some(2), 10);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.test(1, receive), done(0, 2, 6));
    assert_eq!((world.test(0, first), world.test(0, second)), (None, done(1, 2, 6)));
}

#[test]
fn post_without_a_free_descriptor_fails() {
    let (mut host, array) = (Host::new(), Array::new());
    array.set_nodes(2);
    let piece = Piece { address: 4096, length: 10 };
    for _ in 0..DESCRIPTORS {
        host.post_send(&array, 1, 0, &[piece]).unwrap();
    }
    assert_eq!(host.post_receive(&array, None, None, &[]), Err(PostError::Full));
}

/// Section 4.2: a message has one descriptor, a chain of up to four, or one that points to a page of addresses.
#[test]
fn pieces_take_the_descriptors_that_the_paper_says() {
    for (pieces, descriptors) in
        [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4), (8, 1), (512, 1)]
    {
        let (mut host, array) = (Host::new(), Array::new());
        array.set_nodes(2);
        let piece = Piece { address: 1 << 40, length: 3 };
        host.post_send(&array, 1, 0, &vec![piece; pieces]).unwrap();
        assert_eq!(DESCRIPTORS - host.free(), descriptors, "{pieces}");
    }
}

#[test]
fn pieces_are_gathered_and_scattered() {
    for (from, into) in [(1, 2), (2, 1), (7, 3), (8, 7), (3, 500), (512, 512)] {
        let mut world = two();
        let message = pattern(30_000);
        let cut = |world: &mut World, at: u32, count: usize, fill: bool| -> Vec<Piece> {
            let len = message.len().div_ceil(count);
            let pieces = message.chunks(len).map(|part| {
                let bytes = if fill { part.to_vec() } else { vec![0; part.len()] };
                let address = world.stations[at as usize].memory.add(&bytes);
                Piece { address, length: part.len() }
            });
            // Empty pieces take no descriptor.
            pieces.chain([Piece { address: 0, length: 0 }; 20]).collect()
        };
        let (gathered, scattered) =
            (cut(&mut world, 0, from, true), cut(&mut world, 1, into, false));
        let [sender, receiver] = &mut world.stations[..] else { unreachable!() };
        let receive = receiver.host.post_receive(&receiver.array, None, None, &scattered).unwrap();
        let send = sender.host.post_send(&sender.array, 1, 0, &gathered).unwrap();
        world.poll(1);
        world.poll(0);
        world.run();
        assert_eq!(world.test(0, send), done(1, 0, 30_000), "{from} {into}");
        assert_eq!(world.test(1, receive), done(0, 0, 30_000));
        let came: Vec<u8> = scattered
            .iter()
            .flat_map(
                |it| if it.length == 0 { vec![] } else { world.bytes(1, it.address, it.length) },
            )
            .collect();
        assert_eq!(came, message);
        assert!(world.stations.iter().all(|station| station.free() == DESCRIPTORS));
    }
}

#[test]
fn posts_that_cannot_be_are_refused() {
    let (mut host, array) = (Host::new(), Array::new());
    array.set_nodes(2);
    let piece = |address, length| [Piece { address, length }];
    for (node, pieces, why) in [
        (2, piece(0, 1), PostError::UnknownNode),
        (u16::MAX, piece(0, 1), PostError::UnknownNode),
        (1, piece(1 << 48, 1), PostError::Address),
        (1, piece((1 << 48) - 1, 2), PostError::Address),
        (1, piece(u64::MAX, 2), PostError::Address),
        (1, piece(0, MESSAGE_MAX + 1), PostError::TooLong),
        (1, piece(0, usize::MAX), PostError::TooLong),
    ] {
        assert_eq!(host.post_send(&array, node, 0, &pieces), Err(why));
        assert_eq!(host.post_receive(&array, Some(node), None, &pieces), Err(why));
    }
    let many = vec![Piece { address: 0, length: 1 }; 513];
    assert_eq!(host.post_send(&array, 1, 0, &many), Err(PostError::TooLong));
    let odd = [
        Piece { address: 0, length: MESSAGE_MAX - PIECE_MAX },
        Piece { address: 0, length: PIECE_MAX },
    ];
    assert!(host.post_send(&array, 1, 0, &odd).is_ok());
    assert_eq!(host.free(), DESCRIPTORS - 1);
}

#[test]
fn handle_reports_its_result_once() {
    let mut world = two();
    let (receive, _) = world.receive(1, None, None, 4);
    world.send(0, 1, 0, b"word");
    world.run();
    assert!(world.test(1, receive).is_some());
    let station = &mut world.stations[1];
    assert_eq!(station.host.test(&station.array, receive), Err(Misuse));
    assert_eq!(station.host.cancel(&station.array, receive), Err(Misuse));
    assert_eq!(station.array.is_pending(receive), Err(Misuse));
    let later = station.host.post_receive(&station.array, None, None, &[]).unwrap();
    assert_eq!(station.host.test(&station.array, receive), Err(Misuse));
    assert_eq!(station.array.is_pending(later), Ok(true));
}

#[test]
fn receive_is_cancelled_unless_a_message_has_matched() {
    let mut world = two();
    let (first, _) = world.receive(1, None, Some(1), 4);
    let (second, _) = world.receive(1, None, Some(2), 20 * SIZE);
    let cancel = |world: &mut World, handle| {
        let station = &mut world.stations[1];
        station.host.cancel(&station.array, handle).unwrap();
        station.host.cancel(&station.array, handle).unwrap();
        world.poll(1);
    };
    cancel(&mut world, first);
    assert_eq!(world.test(1, first).map(|it| it.status), Some(Status::Cancelled));
    world.send(0, 1, 2, &pattern(20 * SIZE));
    while world.counters(1).came < 4 {
        assert!(world.step());
    }
    cancel(&mut world, second);
    assert_eq!(world.test(1, second), None);
    world.run();
    assert_eq!(world.test(1, second), done(0, 2, 20 * SIZE));
    assert_eq!(world.stations[1].free(), DESCRIPTORS);
}

#[test]
fn a_message_that_is_too_long_is_an_error_at_both_ends() {
    let mut world = two();
    let (receive, at) = world.receive(1, None, None, 10);
    let (next, _) = world.receive(1, None, None, 100);
    let send = world.send(0, 1, 5, &pattern(11));
    let later = world.send(0, 1, 5, &pattern(10));
    world.run();
    let too_long = |node, tag| Some(Outcome { status: Status::TooLong, node, tag, length: 11 });
    assert_eq!(world.test(0, send), too_long(1, 5));
    assert_eq!(world.test(1, receive), too_long(0, 5));
    assert_eq!(world.bytes(1, at, 10), [0; 10]);
    assert_eq!((world.test(0, later), world.test(1, next)), (done(1, 5, 10), done(0, 5, 10)));
    assert!(world.stations.iter().all(|station| station.engine.busy_peers() == 0));
}

#[test]
fn a_station_may_send_to_itself() {
    let mut world = two();
    let (receive, at) = world.receive(0, Some(0), Some(1), 9000);
    let send = world.send(0, 0, 1, &pattern(9000));
    world.run();
    assert_eq!((world.test(0, send), world.test(0, receive)), (done(0, 1, 9000), done(0, 1, 9000)));
    assert_eq!(world.bytes(0, at, 9000), pattern(9000));
}

#[test]
fn a_long_message_fills_the_link() {
    let link = Link { bandwidth: Some(125_000_000), ..Link::perfect() };
    let mut world = World::with(Net::new(1, link), 2, |_| ());
    let (receive, _) = world.receive(1, None, None, 10 << 20);
    world.send(0, 1, 0, &pattern(10 << 20));
    world.run_for(Duration::from_millis(95));
    assert_eq!(world.test(1, receive), done(0, 0, 10 << 20));
    assert_eq!(world.counters(0).resent, 0);
}

/// A receiver distinguishes messages up to 1,024 after the first missing one.
#[test]
fn messages_far_behind_an_unmatched_message_wait() {
    const LATER: usize = 1100;
    let mut world = World::new(1, Link::perfect(), 2);
    let first = world.send(0, 1, 1, b"first");
    let mut ended = 0;
    for later in 0..LATER {
        let (receive, _) = world.receive(1, Some(0), Some(2), 4);
        let send = world.send(0, 1, 2, &(later as u32).to_be_bytes());
        world.run_for(Duration::from_millis(5));
        let (sent, received) = (world.test(0, send), world.test(1, receive));
        assert_eq!(sent.is_some(), received.is_some());
        ended += usize::from(sent.is_some());
        assert_eq!(sent.is_some(), later < 1023, "{later}");
    }
    assert_eq!((ended, world.test(0, first)), (1023, None));
    let (receive, _) = world.receive(1, Some(0), Some(1), 5);
    world.run();
    assert_eq!(world.test(1, receive), done(0, 1, 5));
    assert_eq!(world.test(0, first), done(1, 1, 5));
    assert_eq!(world.stations[1].engine.counters().timeouts, 0);
}
