//! Pairs of sender and receiver, and the shortest time that the network needs for their bytes.

use crate::{Scenario, Traffic};
use core::time::Duration;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sovia_simnet::Fabric;
use std::collections::{BTreeMap, BTreeSet};

/// Returns every pair of sender and receiver once, in order.
pub(crate) fn flows(scenario: &Scenario) -> Vec<(u32, u32)> {
    let nodes = scenario.nodes;
    let pairs: BTreeSet<(u32, u32)> = match scenario.traffic {
        Traffic::AllToAll => {
            (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).collect()
        }
        Traffic::Permutation => permutation(nodes, scenario.seed),
        Traffic::Incast(senders) => (1..=senders).map(|from| (from, 0)).collect(),
        Traffic::HotSpot(senders) => {
            let hot = (1..=senders).map(|from| (from, 0));
            permutation(nodes, scenario.seed).into_iter().chain(hot).collect()
        }
    };
    pairs.into_iter().filter(|&(from, to)| from != to && from.max(to) < nodes).collect()
}

/// Returns a permutation of all nodes that is one cycle, so that no node sends to itself.
fn permutation(nodes: u32, seed: u64) -> BTreeSet<(u32, u32)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut order: Vec<u32> = (0..nodes).collect();
    for last in (1..order.len()).rev() {
        let other = (random.next_u64() % (last as u64 + 1)) as usize;
        order.swap(last, other);
    }
    (0..order.len()).map(|i| (order[i], order[(i + 1) % order.len()])).collect()
}

/// Returns the shortest time that the network needs for the given flows. The bottleneck is the busiest node's cable, or
/// the busiest leaf's cables to the spines.
pub(crate) fn bound(fabric: &Fabric, flows: &[(u32, u32, u64)]) -> Duration {
    let leaf = |node: u32| node / fabric.leaf_nodes.max(1);
    let mut loads: BTreeMap<(bool, bool, u32), u128> = BTreeMap::new();
    for &(from, to, bytes) in flows {
        let bytes = u128::from(bytes);
        *loads.entry((true, false, from)).or_default() += bytes;
        *loads.entry((true, true, to)).or_default() += bytes;
        if leaf(from) != leaf(to) {
            *loads.entry((false, false, leaf(from))).or_default() += bytes;
            *loads.entry((false, true, leaf(to))).or_default() += bytes;
        }
    }
    let nanos = loads.into_iter().map(|((is_access, _, _), load)| {
        let trunks = fabric.trunk.rate.saturating_mul(u64::from(fabric.spines.max(1)));
        let rate = if is_access { fabric.access.rate } else { trunks };
        load * 1_000_000_000 / u128::from(rate.max(1))
    });
    Duration::from_nanos(u64::try_from(nanos.max().unwrap_or(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small;

    fn like(nodes: u32, traffic: Traffic) -> Scenario {
        let first = small().into_iter().next().unwrap();
        Scenario { nodes, traffic, ..first }
    }

    #[test]
    fn each_traffic_has_the_flows_that_its_name_says() {
        assert_eq!(flows(&like(16, Traffic::AllToAll)).len(), 16 * 15);
        assert_eq!(
            flows(&like(65, Traffic::Incast(64))),
            (1..65).map(|n| (n, 0)).collect::<Vec<_>>()
        );
        let pairs = flows(&like(100, Traffic::Permutation));
        let (from, to): (BTreeSet<_>, BTreeSet<_>) = pairs.iter().copied().unzip();
        assert_eq!((pairs.len(), from.len(), to.len()), (100, 100, 100));
        let pairs = flows(&like(100, Traffic::HotSpot(50)));
        let to_hot = pairs.iter().filter(|&&(_, to)| to == 0).count();
        assert!((50..=51).contains(&to_hot) && pairs.len() >= 149, "{to_hot} of {}", pairs.len());
    }

    #[test]
    fn the_bound_is_that_of_the_busiest_cable() {
        let mut fabric = like(9, Traffic::AllToAll).fabric;
        let flows: Vec<_> = (1..9).map(|from| (from, 0, 10_000)).collect();
        fabric.access.rate = 1_000_000;
        assert_eq!(bound(&fabric, &flows), Duration::from_millis(80));
        // The flows pass one trunk that is ten times as slow.
        fabric.leaf_nodes = 1;
        fabric.spines = 1;
        fabric.trunk.rate = 100_000;
        assert_eq!(bound(&fabric, &flows), Duration::from_millis(800));
    }
}
