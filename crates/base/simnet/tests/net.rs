//! Tests of the network's faults, and of its determinism.

use core::time::Duration;
use proptest::prelude::*;
use sovia_simnet::{Change, Event, Link, Net, NodeId, Time};
use std::collections::BTreeSet;

const MICRO: u64 = 1_000;

type Numbers = Net<u32, u32>;

fn pair(seed: u64, link: Link) -> (Numbers, NodeId, NodeId) {
    let mut net = Net::new(seed, link);
    let (a, b) = (net.add_node(), net.add_node());
    (net, a, b)
}

/// Returns all arrivals: the time in nanoseconds, the payload, and whether it is corrupt.
fn arrivals(net: &mut Numbers) -> Vec<(u64, u32, bool)> {
    let mut all = Vec::new();
    while let Some(event) = net.step() {
        if let Event::Packet(packet) = event {
            all.push((net.now().nanos(), packet.payload, packet.corrupt));
        }
    }
    all
}

#[test]
fn a_perfect_link_only_takes_its_time() {
    let (mut net, a, b) = pair(1, Link::perfect());
    (0..100).for_each(|i| net.send(a, b, 100, i));
    let expected: Vec<_> = (0..100).map(|i| (10 * MICRO, i, false)).collect();
    assert_eq!(arrivals(&mut net), expected);
    assert_eq!(net.next_time(), None);
}

#[test]
fn a_slow_link_takes_one_packet_after_the_other() {
    let link = Link { bandwidth: Some(1_000_000), ..Link::perfect() };
    let (mut net, a, b) = pair(1, link);
    (0..3).for_each(|i| net.send(a, b, 1_000, i));
    net.send(b, a, 1_000, 9);
    let times: Vec<_> = arrivals(&mut net).iter().map(|&(at, n, _)| (at / MICRO, n)).collect();
    assert_eq!(times, [(1_010, 0), (1_010, 9), (2_010, 1), (3_010, 2)]);
}

#[test]
fn a_packet_that_finds_a_full_queue_is_lost() {
    let link = Link { bandwidth: Some(1_000_000), queue: Some(2_500), ..Link::perfect() };
    let (mut net, a, b) = pair(1, link);
    (0..4).for_each(|i| net.send(a, b, 1_000, i));
    net.send(a, b, 500, 4);
    assert_eq!(net.counters().overflowed, 2);
    // After a millisecond the first packet has left the queue.
    while net.now().nanos() < 1_010 * MICRO {
        net.step();
    }
    net.send(a, b, 1_000, 5);
    let times: Vec<_> = arrivals(&mut net).iter().map(|&(at, n, _)| (at / MICRO, n)).collect();
    assert_eq!(times, [(2_010, 1), (2_510, 4), (3_510, 5)]);
}

#[test]
fn jitter_alone_keeps_the_order() {
    let link = Link { jitter: Duration::from_millis(1), ..Link::perfect() };
    let (mut net, a, b) = pair(5, link);
    (0..200).for_each(|i| net.send(a, b, 1, i));
    let order: Vec<_> = arrivals(&mut net).iter().map(|&(_, n, _)| n).collect();
    assert_eq!(order, (0..200).collect::<Vec<_>>());
}

#[test]
fn faults_are_as_frequent_as_asked() {
    let (mut net, a, b) = pair(7, Link::faulty(0.1));
    const SENT: u32 = 10_000;
    for i in 0..SENT {
        net.send(a, b, 10, i);
    }
    let all = arrivals(&mut net);
    let counters = net.counters();
    for (what, count) in [
        ("lost", counters.lost),
        ("duplicated", counters.duplicated),
        ("corrupt", counters.corrupt),
        ("reordered", counters.reordered),
    ] {
        assert!((800..1_200).contains(&count), "{what}: {count}");
    }
    assert_eq!(all.len() as u64, u64::from(SENT) - counters.lost + counters.duplicated);
    assert!(all.windows(2).any(|two| two[0].1 > two[1].1), "nothing was overtaken");
}

#[test]
fn a_partition_begins_and_ends_in_time() {
    let (mut net, a, b) = pair(1, Link::perfect());
    let c = net.add_node();
    let at = |micros| Time::from_nanos(micros * MICRO);
    net.change(at(100), Change::Partition(BTreeSet::from([a])));
    net.change(at(200), Change::Heal);
    for micros in [50, 95, 150, 195, 250] {
        net.set_timer(at(micros), micros as u32);
    }
    let mut heard = Vec::new();
    while let Some(event) = net.step() {
        match event {
            Event::Timer(micros) => {
                net.send(a, b, 1, micros);
                net.send(b, c, 1, 1_000 + micros);
            }
            Event::Packet(packet) => heard.push(packet.payload),
            Event::Changed => {}
        }
    }
    heard.sort_unstable();
    // Packets in flight when the partition begins are lost, and so are packets sent during the partition.
    assert_eq!(heard, [50, 250, 1_050, 1_095, 1_150, 1_195, 1_250]);
    assert_eq!(net.counters().cut, 3);
}

#[test]
fn severed_nodes_are_two_and_links_have_directions() {
    let (mut net, a, b) = pair(1, Link::perfect());
    let c = net.add_node();
    net.change(Time::ZERO, Change::Sever(b, a));
    net.change(Time::ZERO, Change::Link(a, c, Link { loss: 1.0, ..Link::perfect() }));
    assert_eq!((net.step(), net.step()), (Some(Event::Changed), Some(Event::Changed)));
    for (from, to, n) in [(a, b, 1), (b, a, 2), (a, c, 3), (c, a, 4), (b, c, 5)] {
        net.send(from, to, 1, n);
    }
    let order: Vec<_> = arrivals(&mut net).iter().map(|&(_, n, _)| n).collect();
    assert_eq!(order, [4, 5]);
    net.change(Time::ZERO, Change::Mend(a, b));
    net.step();
    net.send(a, b, 1, 6);
    assert_eq!(arrivals(&mut net).len(), 1);
}

#[test]
fn time_passes_without_events_and_not_beyond_one() {
    let (mut net, _, _) = pair(1, Link::perfect());
    net.pass(Time::from_nanos(5));
    assert_eq!(net.now().nanos(), 5);
    net.set_timer(Time::from_nanos(10), 1);
    net.set_timer(Time::from_nanos(1), 2);
    net.pass(Time::from_nanos(100));
    assert_eq!(net.now().nanos(), 5);
    assert_eq!((net.step(), net.step()), (Some(Event::Timer(2)), Some(Event::Timer(1))));
    net.pass_for(Duration::from_nanos(3));
    assert_eq!(net.now().nanos(), 13);
}

proptest! {
    /// Checks that a seed always gives the same events, that time never goes back, and that only sent packets arrive.
    #[test]
    fn the_same_again(seed: u64, probability in 0.0..0.5, sizes in prop::collection::vec(1u32..9000, 1..60)) {
        let run = |seed| {
            let (mut net, a, b) = pair(seed, Link::faulty(probability));
            for (i, &size) in sizes.iter().enumerate() {
                net.send(a, b, size, i as u32);
            }
            (arrivals(&mut net), net.log(), net.counters())
        };
        let first = run(seed);
        prop_assert_eq!(&first, &run(seed));
        prop_assert!(first.0.windows(2).all(|two| two[0].0 <= two[1].0));
        let mut times = vec![0; sizes.len()];
        first.0.iter().for_each(|&(_, n, _)| times[n as usize] += 1);
        prop_assert!(times.iter().all(|&n| n <= 2));
    }
}

#[test]
fn another_seed_is_another_story() {
    let run = |seed| {
        let (mut net, a, b) = pair(seed, Link::faulty(0.2));
        (0..100).for_each(|i| net.send(a, b, 1, i));
        arrivals(&mut net);
        net.log()
    };
    let logs: BTreeSet<_> = (0..50).map(|seed| run(seed).hash).collect();
    assert_eq!(logs.len(), 50);
}
