//! Both ends against each other, over a bad network.

use super::{Rx, Timing, Tx, Verdict};
use core::time::Duration;
use proptest::prelude::*;
use sovia_simnet::{Change, Event, Link, Net, NodeId, Time};

const TIMING: Timing =
    Timing { first: Duration::from_millis(1), longest: Duration::from_millis(16), tries: 20 };

#[derive(Debug, Clone)]
enum Packet {
    Frame(u64, u32),
    Ack(u64),
}

/// What arrives of `count` numbers, and whether the sender gave up.
fn run(seed: u64, link: Link, window: usize, count: u32, cut: Option<Time>) -> (Vec<u32>, bool) {
    let mut net: Net<Packet, ()> = Net::new(seed, link);
    let (from, to) = (net.add_node(), net.add_node());
    if let Some(at) = cut {
        net.change(at, Change::Sever(from, to));
    }
    let (mut tx, mut rx) = (Tx::new(TIMING, window), Rx::new(window));
    (0..count).for_each(|n| assert_eq!(tx.push(n), u64::from(n)));
    let mut got = Vec::new();
    let pump = |net: &mut Net<Packet, ()>, tx: &mut Tx<u32>| {
        while let Some((number, frame)) = tx.next(net.now()) {
            net.send(from, to, 1000, Packet::Frame(number, frame));
        }
        if let Some(deadline) = tx.deadline() {
            net.set_timer(deadline, ());
        }
    };
    pump(&mut net, &mut tx);
    while let Some(event) = net.step() {
        match event {
            Event::Packet(packet) if packet.damaged => {}
            Event::Packet(packet) => match packet.payload {
                Packet::Frame(number, frame) => {
                    assert_eq!(packet.to, NodeId(1));
                    rx.came(number, frame);
                    got.extend(core::iter::from_fn(|| rx.next().map(|(_, frame)| frame)));
                    net.send(to, from, 48, Packet::Ack(rx.ack()));
                }
                Packet::Ack(ack) => {
                    tx.acknowledged(ack, net.now());
                    pump(&mut net, &mut tx);
                }
            },
            Event::Timer(()) => match tx.tick(net.now()) {
                Verdict::Patience => {}
                Verdict::Again => pump(&mut net, &mut tx),
                Verdict::Hopeless => return (got, true),
            },
            Event::Changed => {}
        }
    }
    assert_eq!(tx.backlog(), 0, "it has stopped without reason");
    (got, false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Everything, once, in order.
    #[test]
    fn it_all_arrives(seed: u64, fault in 0.0..0.25, window in 1usize..40, count in 0u32..150) {
        let (got, gave_up) = run(seed, Link::faulty(fault), window, count, None);
        prop_assert!(!gave_up);
        prop_assert_eq!(got, (0..count).collect::<Vec<_>>());
    }

    /// A beginning of it, and the sender notices.
    #[test]
    fn a_cut_is_noticed(seed: u64, fault in 0.0..0.25, at in 0u64..2_000_000) {
        let (got, gave_up) = run(seed, Link::faulty(fault), 8, 5_000, Some(Time::from_nanos(at)));
        prop_assert!(gave_up);
        prop_assert_eq!(&got, &(0..got.len() as u32).collect::<Vec<_>>());
    }
}

#[test]
fn a_perfect_link_needs_nothing_twice() {
    let mut tx = Tx::<u32>::new(TIMING, 4);
    (0..6).for_each(|n| assert_eq!(tx.push(n), u64::from(n)));
    let first: Vec<_> = core::iter::from_fn(|| tx.next(Time::ZERO)).collect();
    assert_eq!(first, [(0, 0), (1, 1), (2, 2), (3, 3)]);
    tx.acknowledged(3, Time::from_nanos(1000));
    let more: Vec<_> = core::iter::from_fn(|| tx.next(Time::from_nanos(1000))).collect();
    assert_eq!(more, [(4, 4), (5, 5)]);
    tx.acknowledged(6, Time::from_nanos(2000));
    assert_eq!((tx.deadline(), tx.backlog()), (None, 0));
}

#[test]
fn waits_grow_and_end() {
    let mut tx = Tx::new(Timing { tries: 3, ..TIMING }, 4);
    tx.push(0);
    let mut waits = Vec::new();
    loop {
        let now = tx.deadline().unwrap_or(Time::ZERO);
        if tx.tick(now) == Verdict::Hopeless {
            break;
        }
        assert!(tx.next(now).is_some() && tx.next(now).is_none());
        waits.push(tx.deadline().unwrap().since(now).as_millis());
    }
    assert_eq!(waits, [1, 2, 4, 8]);
}
