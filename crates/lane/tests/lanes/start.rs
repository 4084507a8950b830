//! Tests of lanes that cannot start, and of a lane whose device disappears.

use crate::lanes::common::{Host, over_each};
use sovia_lane::{Config, PEERS_MAX, PeerConfig, StartError};

fn peer(number: u8, network: &str) -> PeerConfig {
    PeerConfig {
        name: format!("peer {number}"),
        host: vec![number; 6].into(),
        networks: vec![network.parse().unwrap()],
    }
}

#[test]
fn configurations_that_cannot_be_are_refused() {
    let check = |mtu, peers| Config { mtu, peers }.check();
    for mtu in [0, 1279, 65536] {
        assert_eq!(check(mtu, vec![]), Err(StartError::Mtu { mtu, longest: 65535 }));
    }
    let same = vec![peer(1, "10.0.0.1/32"), peer(1, "10.0.0.2/32")];
    assert_eq!(check(1500, same), Err(StartError::SamePlace("peer 1".into(), "peer 1".into())));
    let overlap = check(1500, vec![peer(1, "10.0.0.0/24"), peer(2, "10.0.0.9/24")]).unwrap_err();
    assert!(matches!(overlap, StartError::Overlap(_)), "{overlap}");
    let many =
        |count: usize| (0..count).map(|n| peer(n as u8, &format!("10.0.{n}.0/24"))).collect();
    assert_eq!(check(1500, many(PEERS_MAX)), Ok(()));
    assert_eq!(check(1500, many(PEERS_MAX + 1)), Err(StartError::Peers(PEERS_MAX + 1)));
}

#[test]
fn lane_whose_device_is_gone_says_so() {
    over_each(|[own, peer]| {
        let mut host = Host::start(own, peer, &["10.0.0.2/32"], 1500);
        host.out = None;
        assert!(host.event().starts_with("the device is gone"));
    });
}
