//! Runs the conformance suite between two threads: over a perfect network, over a network with all faults, and between
//! two VIs of the same NIC.

use core::time::Duration;
use via_conformance::run::{AnyNic, Case, Verdict, conclude, in_threads, trials};
use via_sim::{Config, Link, Network};

/// Watchdog time.
const PATIENCE: Duration = Duration::from_secs(120);
const SEED: u64 = 0;

fn play(case: &Case, config: Config, names: [&'static str; 2]) -> Verdict {
    let network = Network::new(SEED, config.live());
    let server = network.nic(names[0]).address(b"server");
    let verdict = in_threads(case, PATIENCE, move |role| {
        let name = if role == "server" { names[0] } else { names[1] };
        (AnyNic::Sim(network.nic(name)), server.clone())
    });
    match verdict {
        Verdict::Failed(why) => Verdict::Failed(format!("with seed {SEED}: {why}")),
        verdict => verdict,
    }
}

fn main() {
    let way =
        |name, config: Config, names| trials(name, move |case: &Case| play(case, config, names));
    conclude(
        [
            way("perfect_network", Config::default(), ["one", "two"]),
            way("within_a_nic", Config::default(), ["one", "one"]),
            // Of a hundred packets, five are lost, five are duplicated, five are corrupt and five are late.
            way("bad_network", Config::default().over(Link::faulty(0.05)), ["one", "two"]),
        ]
        .into_iter()
        .flatten()
        .collect(),
    );
}
