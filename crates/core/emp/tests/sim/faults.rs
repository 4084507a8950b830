//! Tests of peers that die, restart or never existed, and of forged frames.

use crate::sim::world::{KEY, World};
use core::time::Duration;
use sovia_emp::array::DESCRIPTORS;
use sovia_emp::wire::{Body, Frame, Greeting, Head, Hello, Message};
use sovia_emp::{Config, Status};
use sovia_link::wire::{Checksum, EndId};
use sovia_simnet::{Change, Link, Net, NodeId};

const LONG: usize = 300_000;

fn two() -> World {
    let link = Link { bandwidth: Some(125_000_000), ..Link::perfect() };
    World::with(Net::new(3, link), 2, |_| ())
}

#[test]
fn a_peer_that_never_was_is_an_error() {
    let mut world = two();
    world.kill(1);
    let sends = [world.send(0, 1, 0, b"word"), world.send(0, 1, 0, &[0; 5000])];
    world.run();
    for send in sends {
        assert_eq!(world.test(0, send).unwrap().status, Status::PeerDead);
    }
    assert_eq!(world.stations[0].free(), DESCRIPTORS);
}

#[test]
fn a_sender_that_dies_in_the_middle_of_a_message_is_an_error() {
    let mut world = two();
    let (receive, _) = world.receive(1, Some(0), None, LONG);
    world.send(0, 1, 0, &[7; LONG]);
    world.run_for(Duration::from_millis(1));
    assert!(world.counters(1).came > 10);
    world.kill(0);
    world.run();
    assert_eq!(world.test(1, receive).unwrap().status, Status::PeerDead);
    assert_eq!(world.stations[1].free(), DESCRIPTORS);
}

#[test]
fn a_receiver_that_dies_in_the_middle_of_a_message_is_an_error() {
    let mut world = two();
    world.receive(1, Some(0), None, LONG);
    let send = world.send(0, 1, 0, &[7; LONG]);
    world.run_for(Duration::from_millis(1));
    world.kill(1);
    world.run();
    assert_eq!(world.test(0, send).unwrap().status, Status::PeerDead);
    assert_eq!(world.stations[0].free(), DESCRIPTORS);
}

#[test]
fn a_receiver_that_begins_anew_in_the_middle_of_a_message_is_an_error() {
    let mut world = two();
    world.receive(1, Some(0), None, LONG);
    let send = world.send(0, 1, 0, &[7; LONG]);
    let behind = world.send(0, 1, 0, &[8; 100]);
    world.run_for(Duration::from_millis(1));
    world.restart(1);
    let (receive, at) = world.receive(1, None, None, LONG);
    world.run();
    for send in [send, behind] {
        assert_eq!(world.test(0, send).unwrap().status, Status::PeerRestarted);
    }
    assert_eq!(world.test(1, receive), None, "no part of an older process's message comes");
    let send = world.send(0, 1, 0, b"anew");
    world.run();
    assert_eq!(world.test(0, send).unwrap().status, Status::Done);
    assert_eq!(world.test(1, receive).unwrap().length, 4);
    assert_eq!(world.bytes(1, at, 4), b"anew");
}

#[test]
fn a_sender_that_begins_anew_in_the_middle_of_a_message_is_an_error() {
    let mut world = two();
    let (receive, _) = world.receive(1, Some(0), None, LONG);
    let (next, at) = world.receive(1, Some(0), None, LONG);
    world.send(0, 1, 0, &[7; LONG]);
    world.run_for(Duration::from_millis(1));
    world.restart(0);
    let send = world.send(0, 1, 0, b"anew");
    world.run();
    assert_eq!(world.test(1, receive).unwrap().status, Status::PeerRestarted);
    assert_eq!(
        (world.test(0, send).unwrap().status, world.test(1, next).unwrap().length),
        (Status::Done, 4)
    );
    assert_eq!(world.bytes(1, at, 4), b"anew");
}

#[test]
fn a_silent_sender_that_begins_anew_is_found_out() {
    let mut world = two();
    let (receive, _) = world.receive(1, Some(0), None, LONG);
    world.send(0, 1, 0, &[7; LONG]);
    world.run_for(Duration::from_millis(1));
    // The sender is silent from now on.
    world.restart(0);
    world.run();
    assert_eq!(world.test(1, receive).unwrap().status, Status::PeerRestarted);
}

#[test]
fn a_peer_that_is_given_up_ends_what_is_under_way_at_once() {
    let mut world = two();
    let (receive, _) = world.receive(1, Some(0), Some(1), LONG);
    // The second message waits for a receive that is never posted.
    let sends = [world.send(0, 1, 1, &[7; LONG]), world.send(0, 1, 2, b"waits")];
    world.run_for(Duration::from_millis(1));
    world.give_up(0, 1);
    for send in sends {
        assert_eq!(world.test(0, send).unwrap().status, Status::PeerDead);
    }
    assert_eq!(world.stations[0].free(), DESCRIPTORS);
    let (next, at) = world.receive(1, Some(0), Some(3), 100);
    let send = world.send(0, 1, 3, b"anew");
    world.run();
    assert_eq!(world.test(1, receive).unwrap().status, Status::PeerRestarted);
    assert_eq!(world.test(0, send).unwrap().status, Status::Done);
    assert_eq!(world.test(1, next).unwrap().length, 4);
    assert_eq!(world.bytes(1, at, 4), b"anew");
}

#[test]
fn two_that_gave_each_other_up_meet_again() {
    let mut world = two();
    let (receive, _) = world.receive(1, Some(0), None, LONG);
    let send = world.send(0, 1, 0, &[7; LONG]);
    world.run_for(Duration::from_millis(1));
    world.change(Change::Sever(NodeId(0), NodeId(1)));
    world.run();
    assert_eq!(world.test(0, send).unwrap().status, Status::PeerDead);
    assert_eq!(world.test(1, receive).unwrap().status, Status::PeerDead);
    world.change(Change::Heal);
    for round in 0..3u8 {
        for (from, to) in [(0, 1), (1, 0)] {
            let (receive, at) = world.receive(u32::from(to), Some(from), None, 100);
            let send = world.send(u32::from(from), to, 9, &[round; 100]);
            world.run();
            assert_eq!(world.test(u32::from(from), send).unwrap().status, Status::Done);
            assert_eq!(world.test(u32::from(to), receive).unwrap().status, Status::Done);
            assert_eq!(world.bytes(u32::from(to), at, 100), [round; 100]);
        }
    }
    assert!(world.stations.iter().all(|station| station.engine.busy_peers() == 0));
}

#[test]
fn one_that_gave_up_alone_is_understood() {
    // The receiver no longer hears the sender, but the sender hears the receiver. The receiver gives up and tells the
    // sender.
    let mut world = two();
    let (receive, _) = world.receive(1, Some(0), None, LONG);
    let send = world.send(0, 1, 0, &[7; LONG]);
    world.run_for(Duration::from_millis(1));
    let lossy = Link { loss: 1.0, ..Link::perfect() };
    world.change(Change::Link(NodeId(0), NodeId(1), lossy));
    world.run();
    assert_eq!(world.test(1, receive).unwrap().status, Status::PeerDead);
    assert_eq!(world.test(0, send).unwrap().status, Status::PeerDead);
    world.change(Change::Link(NodeId(0), NodeId(1), Link::perfect()));
    let (receive, _) = world.receive(1, Some(0), None, 100);
    let send = world.send(0, 1, 0, b"again");
    world.run();
    assert_eq!(world.test(1, receive).unwrap().length, 5);
    assert_eq!(world.test(0, send).unwrap().status, Status::Done);
}

#[test]
fn a_station_with_another_key_is_not_answered() {
    let mut world = two();
    let other = sovia_emp::Engine::<u32>::new(Config::new(EndId(99), 5), 1500);
    world.stations[1].engine = other;
    let station = &mut world.stations[1];
    for peer in 0..2 {
        station.engine.add_peer(&station.array, peer, 5);
    }
    let send = world.send(0, 1, 0, b"word");
    world.receive(1, None, None, 10);
    let back = world.send(1, 0, 0, b"word");
    world.run();
    assert_eq!(world.test(0, send).unwrap().status, Status::PeerDead);
    assert_eq!(world.test(1, back).unwrap().status, Status::PeerDead);
    assert!(world.counters(0).foreign > 0 && world.counters(1).foreign > 0);
}

#[test]
fn unknown_station_with_the_key_becomes_a_peer_if_allowed() {
    let link = Link::perfect();
    let mut world = World::with(Net::new(3, link), 3, |config| config.takes_strangers = true);
    let name = EndId(0x5555);
    let hello = |key| {
        let greeting = Greeting { nonce: 1, you: 8, first: 0 };
        let body = Body::<[u8; 0]>::Hello(Hello { key, own_key: 3, greeting });
        let mut room = [0; 1500];
        let len = Frame { to: EndId::NONE, from: name, body }.emit(&mut room, Checksum::Crc);
        room[..len.unwrap()].to_vec()
    };
    world.inject(2, 0, &hello(KEY + 1));
    assert_eq!(world.stations[0].engine.peers(), 3);
    // The network has this address, but the table does not.
    world.stations[0] = world.restart(0);
    let station = &mut world.stations[0];
    station.engine = sovia_emp::Engine::new(
        Config { takes_strangers: true, ..Config::new(EndId(7), KEY) },
        1500,
    );
    world.inject(2, 0, &hello(KEY + 1));
    assert_eq!(world.stations[0].engine.peers(), 0);
    world.inject(2, 0, &hello(KEY));
    let station = &mut world.stations[0];
    assert_eq!(station.engine.peers(), 1);
    assert_eq!(station.engine.add_peer(&station.array, 2, 3), Some(0));
}

/// Simulates an endpoint that is closed, and a new endpoint at its address. The new endpoint has its own key, and
/// nothing was ever sent to it.
#[test]
fn new_process_at_a_known_address_is_accepted_with_its_new_key() {
    let link = Link::perfect();
    let mut world = World::with(Net::new(5, link), 2, |config| config.takes_strangers = true);
    for (key, text) in [(KEY, b"one"), (77, b"two"), (78, b"ten")] {
        if key != KEY {
            world.restart(1);
            let station = &mut world.stations[1];
            let config = Config { takes_strangers: true, ..Config::new(EndId(0x1000 + key), key) };
            station.engine = sovia_emp::Engine::new(config, 1500);
            assert_eq!(station.engine.add_peer(&station.array, 0, KEY), Some(0));
        }
        let (receive, _) = world.receive(0, None, None, 10);
        let send = world.send(1, 0, 0, text);
        world.run();
        assert_eq!(world.test(0, receive).unwrap().length, 3);
        assert_eq!(world.test(1, send).unwrap().status, Status::Done);
        // From then on the key of the new process is known.
        let (back, _) = world.receive(1, None, None, 10);
        let send = world.send(0, 1, 0, text);
        world.run();
        assert_eq!(world.test(1, back).unwrap().length, 3);
        assert_eq!(world.test(0, send).unwrap().status, Status::Done);
        assert_eq!(world.stations[0].engine.peers(), 2);
    }
}

/// Sends frames with the right names and impossible contents.
#[test]
fn impossible_frames_change_nothing() {
    let mut world = two();
    world.kept = Some(Vec::new());
    let (receive, at) = world.receive(1, Some(0), None, 5000);
    world.send(0, 1, 0, b"word");
    world.run();
    assert_eq!(world.test(1, receive).unwrap().length, 4);
    let (to, from) = world
        .kept
        .iter()
        .flatten()
        .filter(|(from, ..)| *from == 0)
        .map(|(_, _, frame)| Frame::parse(&frame[..], Checksum::Crc).unwrap())
        .find(|frame| matches!(frame.body, Body::Data { .. }))
        .map(|frame| (frame.to, frame.from))
        .unwrap();
    let (receive, later) = world.receive(1, Some(0), None, 5000);
    let message = Message { total: 3000, frames: 3, size: 1000, after: 0, tag: 0, collection: 3 };
    let data = |sender, id, number, message: Option<Message>, len| Body::Data {
        sender,
        head: Head { id, number },
        message,
        ack: None,
        bytes: vec![0xaa; len],
    };
    let ack = |id, number, below, done| Body::Ack {
        sender: 0,
        ack: sovia_emp::wire::Ack { id, number, below, done },
    };
    for body in [
        data(1, 1, 0, Some(message), 1000),
        data(0, 1, 1, None, 1000),
        data(0, 1025, 0, Some(message), 1000),
        data(0, 0x8000_0000, 0, Some(message), 1000),
        ack(17, 0, 0, 0),
        ack(0, 0, u32::MAX, u32::MAX),
        ack(5, u32::MAX, 3, 0x7fff_ffff),
        Body::Noted { sender: 0, id: 9 },
        Body::Go { sender: 0, tag: 9 },
        Body::NotReady { sender: 0, id: 9, is_early: true },
        Body::Refused { sender: 0, id: 9, why: sovia_emp::wire::Why::TooLong },
        Body::Gone { name: EndId(3) },
        Body::Welcome(Greeting { nonce: u64::MAX, you: 0, first: 7 }),
    ] {
        let mut room = [0; 1500];
        let from = if matches!(body, Body::Gone { .. }) { EndId::NONE } else { from };
        let len = Frame { to, from, body }.emit(&mut room, Checksum::Crc).unwrap();
        world.inject(0, 1, &room[..len]);
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.test(1, receive), None);
    assert_eq!(world.bytes(1, later, 5000), [0; 5000]);
    assert_eq!(world.bytes(1, at, 4), b"word");
    world.send(0, 1, 0, b"more");
    world.run();
    assert_eq!(world.test(1, receive).unwrap().length, 4);
}
