//! Streams over a simulated network, in every configuration: over a perfect network, and over one with every kind of
//! fault.

use crate::common::cases::cases;
use crate::common::run::{all, in_threads};
use via_sim::{Config, Link, Network};

fn over(config: Config) {
    all(cases(), |case, _, configuration| {
        let network = Network::new(1, config.live());
        in_threads(case, configuration, move |role| {
            let address = network.nic("server").address(b"stream");
            (network.nic(role), address)
        })
    });
}

#[test]
fn over_a_perfect_network() {
    over(Config::default());
}

/// One percent of the packets each are lost, duplicated, corrupted or delayed.
#[test]
fn over_a_bad_network() {
    over(Config::default().over(Link::faulty(0.01)));
}
