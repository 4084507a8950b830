//! Simulations of a thousand nodes.

use crate::sim::world::World;
use core::time::Duration;
use sovia_emp::{Peer, Status};
use sovia_simnet::{Cable, Fabric};

const NODES: u32 = 1000;

fn star(queue: u64) -> Fabric {
    let latency = Duration::from_micros(2);
    Fabric::star(Cable { rate: 125_000_000, latency, queue, mark_above: None })
}

/// Checks that an idle peer takes at most 64 bytes, including its address.
#[test]
fn an_idle_peer_costs_64_bytes() {
    // One address type fits Ethernet, the other fits the Internet.
    assert!(size_of::<Peer<[u8; 6]>>() <= 64);
    assert!(size_of::<Peer<[u8; 24]>>() <= 64);
}

#[test]
fn a_thousand_nodes_send_to_one() {
    let mut world = World::switched(1, star(256 << 10), NODES);
    let len = 4000;
    let receives: Vec<_> = (0..600).map(|_| world.receive(0, None, Some(1), len).0).collect();
    let sends: Vec<_> =
        (1..NODES).map(|from| world.send(from, 0, 1, &vec![from as u8; len])).collect();
    // The array has 640 descriptors, so the test posts the other receives as these end.
    let mut done = 0;
    let mut pending = receives;
    let mut posted = 600;
    while done < NODES - 1 {
        assert!(world.step(), "{done}");
        if !world.net.now().nanos().is_multiple_of(16) {
            continue;
        }
        let (ended, still): (Vec<_>, Vec<_>) = pending
            .into_iter()
            .partition(|&receive| world.stations[0].array.is_pending(receive) == Ok(false));
        pending = still;
        for receive in ended {
            assert_eq!(world.test(0, receive).unwrap().status, Status::Done);
            done += 1;
            if posted < NODES - 1 {
                posted += 1;
                pending.push(world.receive(0, None, Some(1), len).0);
            }
        }
    }
    let seconds = world.net.now().nanos() as f64 / 1e9;
    let bytes = f64::from(NODES - 1) * len as f64;
    println!("incast: {:.3} s, {:.0} % of the link", seconds, bytes / 125e6 / seconds * 100.0);
    world.run();
    for (from, send) in (1..NODES).zip(sends) {
        assert_eq!(world.test(from, send).unwrap().status, Status::Done);
    }
    assert!(world.stations.iter().all(|station| station.engine.busy_peers() == 0));
    // A lower throughput would mean congestion collapse: the windows of all senders together are 16 times the switch's
    // queue.
    assert!(bytes / 125e6 / seconds > 0.1, "{seconds}");
}

#[test]
fn a_thousand_nodes_send_to_each_other() {
    // Each node sends to 40 nodes, and neighbours have different targets, like in the rounds of an all-to-all exchange.
    let mut world = World::switched(2, star(256 << 10), NODES);
    let peers = |from: u32| (1..=40).map(move |step| (from + step * step) % NODES);
    let mut receives = Vec::new();
    for at in 0..NODES {
        receives.extend((0..40).map(|_| (at, world.receive(at, None, Some(1), 200).0)));
    }
    let mut sends = Vec::new();
    for from in 0..NODES {
        for to in peers(from) {
            sends.push((from, world.send(from, to as u16, 1, &[from as u8; 200])));
        }
    }
    world.run();
    for (at, handle) in receives.into_iter().chain(sends) {
        assert_eq!(world.test(at, handle).unwrap().status, Status::Done);
    }
    assert!(world.stations.iter().all(|station| station.engine.busy_peers() == 0));
}
