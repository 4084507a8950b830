//! Tests of UDP on loopback. They need no privilege.

use sovia_port::impair::{Faults, Impaired};
use sovia_port::udp::Udp;
use sovia_port::{Address, Error, Port, Refused};

const LOOPBACKS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

/// Returns two ports on loopback, and the address of the second port.
fn pair(on: &str) -> (Udp, Udp, Address) {
    let [one, other] = [(), ()].map(|()| Udp::open(on.parse().unwrap()).unwrap());
    let to = Address::Udp(other.own());
    (one, other, to)
}

fn send(port: &mut impl Port, frame: &[u8], to: &Address) {
    let slot = port.slot().expect("the port has room");
    slot[..frame.len()].copy_from_slice(frame);
    port.commit(frame.len(), to).unwrap();
}

/// Returns all arrived frames.
fn receive(port: &mut impl Port) -> Vec<(Address, Vec<u8>)> {
    let mut frames = Vec::new();
    while port.receive(&mut |from, frame| frames.push((*from, frame.to_vec()))).unwrap() > 0 {}
    frames
}

fn contents(port: &mut impl Port) -> Vec<Vec<u8>> {
    receive(port).into_iter().map(|(_, frame)| frame).collect()
}

#[test]
fn frames_of_any_lengths_arrive_in_order_with_their_senders_address() {
    for on in LOOPBACKS {
        let (mut one, mut other, to) = pair(on);
        let from = Address::Udp(one.own());
        let max = one.frame_max();
        // Runs of one length, runs that a shorter frame ends, empty frames, and growing lengths.
        let lens = [0, 1, 1, 1, 0, 0, 700, 700, 700, 20, 20, 700, 3, 4, 5, max, max, max, 1, 0];
        let frames: Vec<Vec<u8>> = lens.iter().zip(0u8..).map(|(&len, i)| vec![i; len]).collect();
        for frame in &frames {
            send(&mut one, frame, &to);
        }
        assert_eq!(one.flush(), Ok(0));
        let got = receive(&mut other);
        assert!(got.iter().all(|(sender, _)| *sender == from));
        assert_eq!(got.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>(), frames);
        assert_eq!(one.counters().sent, frames.len() as u64);
        assert_eq!(other.counters().received, frames.len() as u64);
    }
}

#[test]
fn frames_for_several_destinations_reach_each_its_own() {
    let (mut one, mut a, to_a) = pair(LOOPBACKS[0]);
    let mut b = Udp::open(LOOPBACKS[0].parse().unwrap()).unwrap();
    let to_b = Address::Udp(b.own());
    for i in 0..40u8 {
        send(&mut one, &[i; 100], if i % 3 == 0 { &to_a } else { &to_b });
    }
    assert_eq!(one.flush(), Ok(0));
    let numbers = |frames: Vec<Vec<u8>>| frames.iter().map(|frame| frame[0]).collect::<Vec<_>>();
    assert_eq!(numbers(contents(&mut a)), (0..40).filter(|i| i % 3 == 0).collect::<Vec<_>>());
    assert_eq!(numbers(contents(&mut b)), (0..40).filter(|i| i % 3 != 0).collect::<Vec<_>>());
}

#[test]
fn sixty_four_frames_are_one_message() {
    let (mut one, mut other, to) = pair(LOOPBACKS[0]);
    if !one.describe().contains("UDP_SEGMENT") || !other.describe().contains("UDP_GRO") {
        println!("SKIPPED: sixty_four_frames_are_one_message: the kernel joins no datagrams");
        return;
    }
    for i in 0..64u8 {
        send(&mut one, &[i; 1000], &to);
    }
    one.flush().unwrap();
    let mut frames = 0;
    // The first call requests one message.
    assert_eq!(other.receive(&mut |_, _| frames += 1), Ok(64));
    assert_eq!(frames, 64);
}

#[test]
fn full_port_gives_no_slot_and_has_room_after_a_flush() {
    let (mut one, mut other, to) = pair(LOOPBACKS[0]);
    let mut frames = 0u64;
    while let Some(slot) = one.slot() {
        slot[..8].copy_from_slice(&frames.to_be_bytes());
        // Frames of growing length cannot be joined, so they fill the list of messages.
        one.commit(8 + frames as usize, &to).unwrap();
        frames += 1;
    }
    assert!(frames > 10);
    assert_eq!(one.commit(8, &to), Err(Refused::Full));
    assert_eq!(one.counters().refused_full, 1);
    assert_eq!(one.flush(), Ok(0));
    assert!(one.slot().is_some());
    assert_eq!(contents(&mut other).len() as u64, frames);
}

#[test]
fn every_frame_is_received_or_counted_as_missed() {
    let (mut one, mut other, to) = pair(LOOPBACKS[0]);
    one.set_frame_max(8000);
    let mut sent = 0u64;
    for _ in 0..100 {
        while one.slot().is_some() && sent % 1000 != 999 {
            one.commit(8000, &to).unwrap();
            sent += 1;
        }
        assert_eq!(one.flush(), Ok(0), "loopback takes everything");
        sent += u64::from(sent % 1000 == 999 && one.commit(10, &to).is_ok());
    }
    one.flush().unwrap();
    let received = contents(&mut other).len() as u64;
    let (from, into) = (one.counters(), other.counters());
    assert_eq!(from.sent, sent);
    assert_eq!(into.received, received);
    assert!(into.missed > 0, "the queue was too small for all of {sent}");
    // The kernel counts a joined message as one datagram.
    assert!(received + into.missed <= sent);
}

#[test]
fn foreign_address_or_oversized_frame_is_refused_and_counted() {
    let (mut one, mut other, to) = pair(LOOPBACKS[0]);
    let max = one.frame_max();
    assert!(one.slot().is_some());
    assert_eq!(one.commit(max + 1, &to), Err(Refused::Length));
    assert_eq!(one.commit(1, &Address::Mac([2; 6])), Err(Refused::Address));
    assert_eq!(one.flush(), Ok(0));
    let counters = one.counters();
    assert_eq!((counters.refused_length, counters.refused_address, counters.sent), (1, 1, 0));
    assert_eq!(other.receive(&mut |_, _| panic!("nothing was sent")), Ok(0));
}

#[test]
fn frame_that_the_kernel_cannot_send_is_counted_and_holds_no_other_one_up() {
    let (mut one, mut other, to) = pair(LOOPBACKS[0]);
    let nowhere = Address::Udp("[2001:db8::1]:1".parse().unwrap());
    send(&mut one, b"a", &to);
    send(&mut one, b"b", &nowhere);
    send(&mut one, b"c", &nowhere);
    send(&mut one, b"d", &to);
    assert_eq!(one.flush(), Ok(0));
    let counters = one.counters();
    assert_eq!((counters.sent, counters.unsendable), (2, 2));
    assert!(counters.why_unsendable.is_some());
    assert_eq!(contents(&mut other), [b"a", b"d"]);
}

#[test]
fn frame_max_to_a_peer_is_what_its_route_takes() {
    for on in LOOPBACKS {
        let (mut one, mut other, to) = pair(on);
        let max = Udp::frame_max_to(&other.own()).unwrap();
        assert!(max > 9000, "loopback takes {max} bytes");
        one.set_frame_max(max);
        send(&mut one, &vec![7; max], &to);
        one.flush().unwrap();
        assert_eq!(contents(&mut other), [vec![7; max]]);
    }
}

#[test]
fn address_in_use_is_an_error_that_names_the_step() {
    let one = Udp::open(LOOPBACKS[0].parse().unwrap()).unwrap();
    let error = Udp::open(one.own()).unwrap_err();
    assert_eq!(error.what, "bind");
    assert_eq!(Error::from(error.why), Error::Kernel(error.why));
}

#[test]
fn descriptor_is_readable_when_frames_have_come() {
    let (mut one, mut other, to) = pair(LOOPBACKS[0]);
    let readable = |port: &Udp| sovia_sys::poll::probe(port.descriptors().frames, libc::POLLIN);
    assert_eq!(readable(&other), 0);
    send(&mut one, b"news", &to);
    one.flush().unwrap();
    sovia_sys::poll::wait(other.descriptors().frames, libc::POLLIN);
    assert_eq!(contents(&mut other), [b"news"]);
    assert_eq!(readable(&other), 0);
}

/// Returns all arrived frames, for an owner that has slept.
fn awake(port: &mut Udp) -> Vec<(Address, Vec<u8>)> {
    let mut frames = Vec::new();
    let mut take = |from: &Address, frame: &[u8]| frames.push((*from, frame.to_vec()));
    loop {
        port.slept();
        if port.receive(&mut take).unwrap() == 0 {
            return frames;
        }
    }
}

/// Exchanges lone frames until each port has a separate socket for the other.
fn chat(one: &mut Udp, other: &mut Udp) {
    let [to_one, to_other] = [&*one, &*other].map(|port| Address::Udp(port.own()));
    for i in 0..600u32 {
        send(one, &i.to_be_bytes(), &to_other);
        one.flush().unwrap();
        assert_eq!(awake(other), [(to_one, i.to_be_bytes().to_vec())]);
        send(other, &i.to_be_bytes(), &to_one);
        other.flush().unwrap();
        assert_eq!(awake(one), [(to_other, i.to_be_bytes().to_vec())]);
    }
}

fn busy_pair(on: &str) -> (Udp, Udp) {
    let (mut one, mut other, _) = pair(on);
    for port in [&mut one, &mut other] {
        port.connect_busy_peers().unwrap();
    }
    (one, other)
}

#[test]
fn frames_of_busy_peers_and_of_others_arrive_once_with_their_senders_address() {
    for on in LOOPBACKS {
        let (mut one, mut other) = busy_pair(on);
        chat(&mut one, &mut other);
        let (mut third, to) = (Udp::open(on.parse().unwrap()).unwrap(), Address::Udp(one.own()));
        let [from_other, from_third] = [&other, &third].map(|port| Address::Udp(port.own()));
        for port in [&mut other, &mut third] {
            // Sends one lone frame, then several frames.
            send(port, b"lone", &to);
            port.flush().unwrap();
            (0..3u8).for_each(|i| send(port, &[i; 100], &to));
            port.flush().unwrap();
        }
        let descriptor = one.descriptors().frames;
        sovia_sys::poll::wait(descriptor, libc::POLLIN);
        let mut got = awake(&mut one);
        got.sort_by_key(|(from, _)| *from == from_third);
        let frames = [b"lone".to_vec(), vec![0; 100], vec![1; 100], vec![2; 100]];
        let expected = [from_other, from_third].map(|from| frames.clone().map(|it| (from, it)));
        assert_eq!(got, expected.concat());
        assert_eq!(sovia_sys::poll::probe(descriptor, libc::POLLIN), 0);
        assert_eq!(one.counters().received, 600 + 8);
        // Receives as a spinning owner, which never calls `slept`.
        send(&mut third, b"late", &to);
        third.flush().unwrap();
        let mut late = Vec::new();
        while late.is_empty() {
            one.receive(&mut |from, frame| late.push((*from, frame.to_vec()))).unwrap();
        }
        assert_eq!(late, [(from_third, b"late".to_vec())]);
    }
}

#[test]
fn busy_peer_that_has_gone_is_no_error_and_comes_back_under_its_address() {
    for on in LOOPBACKS {
        let (mut one, mut other) = busy_pair(on);
        chat(&mut one, &mut other);
        let own = other.own();
        drop(other);
        for _ in 0..5 {
            send(&mut one, b"nobody", &Address::Udp(own));
            assert_eq!(one.flush(), Ok(0));
            assert_eq!(awake(&mut one), []);
        }
        let mut other = Udp::open(own).unwrap();
        other.connect_busy_peers().unwrap();
        chat(&mut one, &mut other);
        assert_eq!(one.counters().unsendable, 0);
    }
}

#[test]
fn address_of_a_port_with_busy_peers_is_in_use() {
    let (mut one, mut other) = busy_pair(LOOPBACKS[0]);
    chat(&mut one, &mut other);
    assert_eq!(Udp::open(one.own()).unwrap_err().what, "bind");
}

/// Sends a thousand numbered frames, and returns the frames that arrive.
fn through(faults: Faults) -> (Vec<Vec<u8>>, sovia_port::impair::Happened) {
    let (one, mut other, to) = pair(LOOPBACKS[0]);
    let mut one = Impaired::new(one, faults);
    let mut got = Vec::new();
    for i in 0..1000u32 {
        send(&mut one, &i.to_be_bytes(), &to);
        if i % 10 == 9 {
            assert_eq!(one.flush(), Ok(0));
            got.extend(contents(&mut other));
        }
    }
    for _ in 0..faults.flushes {
        one.flush().unwrap();
        got.extend(contents(&mut other));
    }
    (got, one.happened())
}

#[test]
fn faults_follow_from_the_seed_and_are_counted() {
    let many = 100_000;
    let faults = Faults {
        lost: many,
        duplicated: many,
        reordered: many,
        delayed: many,
        corrupted: many,
        flushes: 5,
        seed: 42,
    };
    let (got, happened) = through(faults);
    assert_eq!((got.clone(), happened), through(faults));
    assert_ne!(got, through(Faults { seed: 43, ..faults }).0);
    assert_eq!(got.len() as u64, 1000 - happened.lost + happened.duplicated);
    let counts = [happened.lost, happened.duplicated, happened.reordered, happened.delayed];
    assert!(counts.into_iter().chain([happened.corrupted]).all(|count| (40..200).contains(&count)));
}

#[test]
fn port_without_faults_changes_nothing() {
    let (got, happened) = through(Faults { seed: 1, ..Faults::default() });
    let all: Vec<Vec<u8>> = (0..1000u32).map(|i| i.to_be_bytes().to_vec()).collect();
    assert_eq!(got, all);
    assert_eq!(happened, Default::default());
}

#[test]
fn reordered_frame_comes_right_after_the_next_one() {
    let (got, happened) = through(Faults { reordered: 200_000, seed: 3, ..Faults::default() });
    let numbers: Vec<u32> =
        got.iter().map(|frame| u32::from_be_bytes(frame[..].try_into().unwrap())).collect();
    let swapped = numbers.windows(2).filter(|two| two[0] == two[1] + 1).count() as u64;
    // The last frame may still be held for a next frame.
    assert!(happened.reordered - swapped <= 1 && swapped > 100);
    assert_eq!(numbers.len() as u64, 1000 - (happened.reordered - swapped));
}

#[test]
fn impaired_port_refuses_what_the_port_within_refuses() {
    let (one, _other, to) = pair(LOOPBACKS[0]);
    let mut one = Impaired::new(one, Faults::default());
    let max = one.frame_max();
    assert_eq!(one.slot().unwrap().len(), max);
    assert_eq!(one.commit(max + 1, &to), Err(Refused::Length));
}
