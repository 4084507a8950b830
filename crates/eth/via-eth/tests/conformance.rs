//! Runs the conformance suite of VIs between two threads, over UDP on this host or within one NIC. Some runs also lose,
//! duplicate, reorder, delay and corrupt frames.

use core::time::Duration;
use via_conformance::run::{AnyNic, Case, Verdict, conclude, in_threads, trials};
use via_eth::{Config, Faults, Place};

/// Time limit that ends a hanging case.
const PATIENCE: Duration = Duration::from_secs(120);

/// Each fault affects five frames in a hundred.
const BAD: Faults = Faults::each(50_000);

fn config(faults: Option<Faults>) -> Config {
    let place = Place::Udp(([127, 0, 0, 1], 0).into());
    Config { faults, ..Config::new(place) }
}

fn play(case: &Case, faults: Option<Faults>, is_one: bool) -> Verdict {
    let config = config(faults);
    let first = config.open().expect("UDP works on this host");
    let server = first.address(b"server");
    in_threads(case, PATIENCE, move |role| {
        let nic = if role == "server" || is_one {
            config.open_beside(&first)
        } else {
            config.open().expect("UDP works on this host")
        };
        (AnyNic::Eth(nic), server.clone())
    })
}

fn main() {
    let way = |name, faults, is_one| trials(name, move |case: &Case| play(case, faults, is_one));
    conclude(
        [
            way("perfect_network", None, false),
            way("within_a_nic", None, true),
            way("bad_network", Some(BAD), false),
        ]
        .into_iter()
        .flatten()
        .collect(),
    );
}
