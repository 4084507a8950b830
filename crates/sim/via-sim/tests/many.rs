//! Tests of scale and of determinism.

use crate::common::{Choices, End, RELIABLE, open, seeds};
use core::time::Duration;
use std::collections::BTreeSet;
use via::cq::Attach;
use via::{CompletionQueue, Nic, Reliability, Vi, ViAttributes, WorkQueueKind};
use via_sim::{Change, Config, Link, Log, Network};

/// Runs four thousand VIs on a hundred nodes. Each NIC has one completion queue.
#[test]
fn thousands_of_vis_on_many_nodes() {
    const NODES: usize = 100;
    const EACH: usize = 40;
    const ROUNDS: usize = 3;
    let network = Network::new(11, Config::default().over(Link::faulty(0.02)));
    let nics: Vec<_> = (0..NODES).map(|n| network.nic(&format!("node{n}"))).collect();
    let cqs: Vec<_> = nics.iter().map(|nic| nic.create_cq(4096, 0).unwrap()).collect();
    let mut ends = Vec::new();
    for (n, nic) in nics.iter().enumerate() {
        let vi = |i: usize| {
            let attach = Attach { send: None, recv: Some(&cqs[n]), context: i as u64 };
            End::attached(
                nic,
                256,
                ViAttributes { max_transfer_size: 256, ..open(RELIABLE[0]) },
                attach,
            )
        };
        ends.push((0..EACH).map(vi).collect::<Vec<_>>());
    }
    // VI i of a node is connected to a VI of another node, across the ring, by peer requests.
    let partner = |n: usize, i: usize| match i % 2 {
        0 => ((n + i / 2 + 1) % NODES, i + 1),
        _ => ((n + NODES - i / 2 - 1) % NODES, i - 1),
    };
    let address = |n: usize, i: usize| nics[n].address(&(i as u32).to_be_bytes());
    for (n, of_node) in ends.iter().enumerate() {
        for (i, end) in of_node.iter().enumerate() {
            let (m, j) = partner(n, i);
            assert_eq!(partner(m, j), (n, i));
            let minute = Some(Duration::from_secs(60));
            end.vi.connect_peer_request(&address(n, i), &address(m, j), minute).unwrap();
        }
    }
    for vi in ends.iter().flatten().map(|end| &end.vi) {
        vi.connect_peer_wait().unwrap();
    }
    for round in 0..ROUNDS {
        for end in ends.iter().flatten() {
            end.post_recv(0, 0, 64);
            end.write(128, &[round as u8 + 1; 64]);
        }
        for end in ends.iter().flatten() {
            end.post_send(1, 128, 64, None);
        }
        network.run();
        for (n, cq) in cqs.iter().enumerate() {
            let mut told = BTreeSet::new();
            while let Some(entry) = cq.done() {
                assert_eq!(entry.queue, WorkQueueKind::Recv);
                assert!(told.insert(entry.context));
                let end = &ends[n][entry.context as usize];
                assert_eq!(end.received()[0].result(), Ok(64));
                assert_eq!(end.bytes(0, 64), [round as u8 + 1; 64]);
                assert_eq!(end.sent()[0].result(), Ok(64));
            }
            assert_eq!(told.len(), EACH);
        }
    }
    assert_eq!(network.connection_ends(), NODES * EACH);
    ends.iter().flatten().for_each(|end| end.vi.disconnect());
    network.run();
    assert_eq!(network.connection_ends(), 0);
}

/// Executes a random mix of operations.
fn story(network: &Network, choices: &mut Choices) {
    let nics: Vec<_> = (0..4).map(|n| network.nic(&format!("node{n}"))).collect();
    let levels = [RELIABLE[0], RELIABLE[1], Reliability::UNRELIABLE];
    let mut pairs = Vec::new();
    for n in 0..12 {
        let [i, j] = [n % 4, (n + 1 + n / 4) % 4];
        let level = open(levels[n % 3]);
        let [a, b] = [i, j].map(|i| End::new(&nics[i], 1 << 16, level));
        let [left, right] = [nics[i].address(&[n as u8]), nics[j].address(&[n as u8, 1])];
        let second = Some(Duration::from_secs(1));
        a.vi.connect_peer_request(&left, &right, second).unwrap();
        b.vi.connect_peer_request(&right, &left, second).unwrap();
        pairs.push([a, b]);
    }
    let island = [nics[choices.below(4)].node()].into();
    let at = network.now().after(Duration::from_micros(3_000));
    network.change(at, Change::Partition(island));
    network.change(at.after(Duration::from_millis(100)), Change::Heal);
    for round in 0..60 {
        let [a, b] = &pairs[choices.below(12)];
        let (from, to) = if choices.below(2) == 0 { (a, b) } else { (b, a) };
        let len = choices.below(1 << 15);
        to.post_recv(round, 0, 1 << 15);
        let place = from.place(100 + round);
        let descriptor = from.memory.descriptor_at(place.address).unwrap();
        descriptor.prepare(&[from.data(1 << 15, len)], Some(round as u32)).unwrap();
        // Some VIs are not connected.
        let _ = from.vi.post_send(place);
        network.run_for(Duration::from_micros(choices.below(300) as u64));
    }
    network.run();
    assert!(pairs.iter().flatten().all(|end| end.vi.connect_peer_done().is_some()));
}

fn log(seed: u64) -> Log {
    let network = Network::new(seed, Config::default().over(Link::faulty(0.05)));
    story(&network, &mut Choices::new(1));
    network.log()
}

#[test]
fn the_same_seed_is_the_same_story_and_another_another() {
    let mut all = BTreeSet::new();
    seeds(40, |seed| assert_eq!(log(seed), log(seed)));
    for seed in 0..40 {
        assert!(all.insert(log(seed).hash), "seed {seed} tells a known story");
    }
}
