//! The suite of the VI core, between two threads: over a perfect network, over one where
//! everything goes wrong that may, and between two VIs of the same NIC.

use core::time::Duration;
use std::env;
use via::conformance::run::{Report, Verdict, in_threads};
use via::conformance::{Case, cases};
use via_sim::{Config, Link, Network, SimNic};

const PATIENCE: Duration = Duration::from_secs(20);

fn play(case: &Case<SimNic>, seed: u64, config: Config, names: [&'static str; 2]) -> Verdict {
    let network = Network::new(seed, config.live());
    let server = network.nic(names[0]).address(b"server");
    let verdict = in_threads(case, PATIENCE, move |role| {
        let name = if role == "server" { names[0] } else { names[1] };
        (network.nic(name), server.clone())
    });
    match verdict {
        Verdict::Failed(why) => Verdict::Failed(format!("with seed {seed}: {why}")),
        verdict => verdict,
    }
}

/// Says what became of each: of all, or of those whose names or groups contain `VIA_ONLY`.
fn all(config: Config, names: [&'static str; 2], seeds: core::ops::Range<u64>) {
    let mut report = Report::default();
    let only = env::var("VIA_ONLY").unwrap_or_default();
    let wanted = |case: &Case<SimNic>| case.name.contains(&only) || case.group.contains(&only);
    for case in cases::<SimNic>().into_iter().filter(wanted) {
        let begin = std::time::Instant::now();
        for seed in seeds.clone() {
            report.add(&case, play(&case, seed, config, names));
        }
        println!("{} {:?}", case.name, begin.elapsed());
    }
    println!("{report}");
    report.check();
}

#[test]
fn over_a_perfect_network() {
    all(Config::default(), ["one", "two"], 0..1);
}

#[test]
fn within_a_nic() {
    all(Config::default(), ["one", "one"], 0..1);
}

/// Five packets in a hundred each are lost, doubled, damaged, late.
#[test]
fn over_a_bad_network() {
    all(Config::default().over(Link::faulty(0.05)), ["one", "two"], 0..1);
}
