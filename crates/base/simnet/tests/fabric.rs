//! Tests of switches.

use core::time::Duration;
use sovia_simnet::{Cable, Change, Event, Fabric, Net, NodeId, Part, Time};
use std::collections::BTreeSet;

const MICRO: u64 = 1_000;
/// A cable of 1 MB per second: a byte takes a microsecond.
const CABLE: Cable = Cable {
    rate: 1_000_000,
    latency: Duration::from_micros(10),
    queue: 4_000,
    mark_above: Some(1_500),
};

type Numbers = Net<u32, ()>;

fn star(nodes: u32) -> Numbers {
    let mut net = Net::switched(3, Fabric::star(CABLE));
    (0..nodes).for_each(|_| _ = net.add_node());
    net
}

/// Makes four leaves with `leaf_nodes` nodes each.
fn spines(spines: u32, leaf_nodes: u32) -> Numbers {
    let reroute = Duration::from_millis(5);
    let mut net =
        Net::switched(3, Fabric { leaf_nodes, spines, access: CABLE, trunk: CABLE, reroute });
    (0..4 * leaf_nodes).for_each(|_| _ = net.add_node());
    net
}

/// Returns all arrivals: the time in microseconds, the payload, and the mark.
fn arrivals(net: &mut Numbers) -> Vec<(u64, u32, bool)> {
    let mut all = Vec::new();
    while let Some(event) = net.step() {
        if let Event::Packet(packet) = event {
            all.push((net.now().nanos() / MICRO, packet.payload, packet.marked));
        }
    }
    all
}

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * MICRO)
}

#[test]
fn switch_forwards_a_packet_after_receiving_all_of_its_bytes() {
    let mut net = star(3);
    net.send(NodeId(0), NodeId(1), 100, 7);
    // The packet passes two cables, and occupies each for 100 µs.
    assert_eq!(arrivals(&mut net), [(220, 7, false)]);
}

#[test]
fn packets_of_several_nodes_share_the_cable_of_one() {
    let mut net = star(3);
    net.send(NodeId(1), NodeId(0), 1_000, 1);
    net.send(NodeId(2), NodeId(0), 1_000, 2);
    assert_eq!(arrivals(&mut net), [(2_020, 1, false), (3_020, 2, false)]);
    // The two directions of a cable do not share their rate.
    let mut net = star(3);
    net.send(NodeId(1), NodeId(0), 1_000, 1);
    net.send(NodeId(0), NodeId(2), 1_000, 2);
    assert_eq!(arrivals(&mut net), [(2_020, 1, false), (2_020, 2, false)]);
}

#[test]
fn queue_marks_above_its_limit_and_drops_when_full() {
    let mut net = star(9);
    (1..9).for_each(|n| net.send(NodeId(n), NodeId(0), 1_000, n));
    let came = arrivals(&mut net);
    // Four packets fit. When the first two of them arrive, the queue has at most 1,500 bytes.
    assert_eq!(came, [(2_020, 1, false), (3_020, 2, false), (4_020, 3, true), (5_020, 4, true)]);
    let (counters, queueing) = (net.counters(), net.queueing());
    assert_eq!((counters.sent, counters.arrived, counters.overflowed), (8, 4, 4));
    assert_eq!((queueing.overflowed, queueing.marked, queueing.most_bytes), (4, 2, 4_000));
}

#[test]
fn node_queues_all_its_packets_and_reports_when_they_have_left() {
    let mut net = star(2);
    (0..10).for_each(|n| net.send(NodeId(0), NodeId(1), 1_000, n));
    assert_eq!((net.sent_by(NodeId(0)), net.sent_by(NodeId(1))), (at(10_000), at(0)));
    assert_eq!(arrivals(&mut net).len(), 10);
}

#[test]
fn packets_between_leaves_pass_a_spine_in_their_order() {
    let mut net = spines(4, 2);
    net.send(NodeId(0), NodeId(1), 100, 1);
    net.send(NodeId(2), NodeId(5), 100, 2);
    assert_eq!(arrivals(&mut net), [(220, 1, false), (440, 2, false)]);
    (0..30).for_each(|n| net.send(NodeId(0), NodeId(7), 100, n));
    let order: Vec<_> = arrivals(&mut net).iter().map(|&(_, n, _)| n).collect();
    assert_eq!(order, (0..30).collect::<Vec<_>>());
}

#[test]
fn pairs_of_nodes_are_spread_over_the_spines() {
    // All nodes of a leaf send at once. Over one spine their packets would arrive one after the other.
    let mut net = spines(4, 64);
    (0..64).for_each(|n| net.send(NodeId(n), NodeId(64 + n), 50, n));
    let last = arrivals(&mut net).last().unwrap().0;
    // If packets are spread evenly, each spine has 16 of 64.
    let by_one = 3 * 60 + 64 * 50;
    assert!(last < by_one / 2, "{last} of {by_one} µs");
}

#[test]
fn failing_cable_loses_its_packets_and_works_after_recovery() {
    let mut net = star(3);
    let access = Part::Access(NodeId(1));
    net.send(NodeId(0), NodeId(1), 1_000, 1);
    net.send(NodeId(1), NodeId(2), 1_000, 2);
    net.send(NodeId(2), NodeId(0), 1_000, 3);
    net.change(at(500), Change::Fail(access));
    assert_eq!(arrivals(&mut net), [(2_020, 3, false)]);
    net.send(NodeId(1), NodeId(0), 10, 4);
    net.send(NodeId(0), NodeId(1), 10, 5);
    assert_eq!((arrivals(&mut net), net.counters().cut), (vec![], 4));
    net.change(net.now(), Change::Recover(access));
    net.step();
    net.send(NodeId(1), NodeId(0), 10, 6);
    assert_eq!(arrivals(&mut net).len(), 1);
}

/// A failure that is shorter than a packet's flight also loses the packet.
#[test]
fn a_packet_does_not_outlive_the_failure_of_its_cable() {
    let mut net = star(2);
    net.send(NodeId(0), NodeId(1), 1_000, 1);
    net.change(at(100), Change::Fail(Part::Access(NodeId(0))));
    net.change(at(101), Change::Recover(Part::Access(NodeId(0))));
    assert_eq!(arrivals(&mut net), []);
}

#[test]
fn leaves_avoid_a_spine_some_time_after_its_failure() {
    let mut net = spines(2, 16);
    let pairs: Vec<_> = (0..16).map(|n| (NodeId(n), NodeId(16 + n))).collect();
    let round = |net: &mut Numbers| {
        pairs.iter().for_each(|&(from, to)| net.send(from, to, 10, from.0));
        let came = arrivals(net);
        came.into_iter().map(|(_, n, _)| n).collect::<BTreeSet<_>>()
    };
    let before = net.now();
    net.change(before, Change::Fail(Part::Spine(0)));
    net.step();
    // Packets over this spine are lost until the leaves react.
    pairs.iter().for_each(|&(from, to)| net.send(from, to, 10, from.0));
    let came: BTreeSet<_> = arrivals(&mut net).into_iter().map(|(_, n, _)| n).collect();
    assert!(!came.is_empty() && came.len() < pairs.len(), "{} came", came.len());
    assert_eq!(round(&mut net).len(), pairs.len());
    net.change(net.now(), Change::Fail(Part::Trunk { leaf: 1, spine: 1 }));
    assert_eq!(arrivals(&mut net), []);
    assert_eq!(round(&mut net).len(), 0);
    net.change(net.now(), Change::Recover(Part::Spine(0)));
    assert_eq!(arrivals(&mut net), []);
    assert_eq!(round(&mut net).len(), pairs.len());
}

#[test]
fn a_leaf_that_fails_cuts_its_nodes_off_and_no_others() {
    let mut net = spines(2, 2);
    net.change(at(0), Change::Fail(Part::Leaf(1)));
    net.step();
    net.send(NodeId(0), NodeId(1), 10, 1);
    net.send(NodeId(0), NodeId(2), 10, 2);
    net.send(NodeId(2), NodeId(3), 10, 3);
    net.send(NodeId(4), NodeId(1), 10, 4);
    let came: Vec<_> = arrivals(&mut net).iter().map(|&(_, n, _)| n).collect();
    assert_eq!(came, [1, 4]);
}

#[test]
fn the_same_seed_gives_the_same_and_another_seed_other_spines() {
    let log = |seed| {
        let reroute = Duration::ZERO;
        let fabric = Fabric { leaf_nodes: 8, spines: 4, access: CABLE, trunk: CABLE, reroute };
        let mut net = Net::<u32, ()>::switched(seed, fabric);
        (0..64).for_each(|_| _ = net.add_node());
        (0..1_000u32).for_each(|n| net.send(NodeId(n % 64), NodeId(n * 7 % 64), 100, n));
        while net.step().is_some() {}
        net.log()
    };
    assert_eq!(log(1), log(1));
    assert_ne!(log(1), log(2));
}
