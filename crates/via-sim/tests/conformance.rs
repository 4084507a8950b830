//! The suite of the VI core, between two threads: over a perfect network, over one where
//! everything goes wrong that may, and between two VIs of the same NIC.

use core::time::Duration;
use via::conformance::run::{Report, Verdict, in_threads};
use via::conformance::{Case, cases};
use via_sim::{Config, Link, Network, SimNic};

const PATIENCE: Duration = Duration::from_secs(12);

/// Runs a case's two roles in two threads, each on the NIC of its own name.
fn play(case: &Case<SimNic>, network: Network, names: [&'static str; 2]) -> Verdict {
    let server = network.nic(names[0]).address(b"server");
    in_threads(case, PATIENCE, move |role| {
        let name = if role == "server" { names[0] } else { names[1] };
        (network.nic(name), server.clone())
    })
}

/// Runs the cases of every group that is wanted, or the one that the variable `CASE` names. The
/// network draws its faults from the case's number.
fn all(config: Config, names: [&'static str; 2], wanted: impl Fn(&str) -> bool) {
    let mut report = Report::default();
    let only = std::env::var("CASE").ok();
    for (seed, case) in cases::<SimNic>().into_iter().enumerate() {
        if wanted(case.group) && only.as_ref().is_none_or(|only| *only == case.name) {
            let network = Network::new(seed as u64, config.live());
            let verdict = play(&case, network, names);
            report.add(&case, verdict);
        }
    }
    println!("{report}");
    report.check();
}

#[test]
fn over_a_perfect_network() {
    all(Config::default(), ["one", "one"], |_| true);
}

/// Five packets in a hundred each are lost, doubled, damaged, late; a NIC's link to itself is one
/// like any other. Not for the unreliable level, whose messages would be lost.
#[test]
fn over_a_bad_network() {
    all(Config::default().over(Link::faulty(0.05)), ["one", "one"], |group| group != "unreliable");
}

/// The cases that do not count on both roles having the same address.
#[test]
fn between_two_nodes() {
    let one_address =
        |group: &str| group == "nic" || group == "states" || group.starts_with("connect, ");
    let config = Config::default().over(Link::faulty(0.02));
    all(config, ["one", "two"], |group| !one_address(group) && group != "unreliable");
}
