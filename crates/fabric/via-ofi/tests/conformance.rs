//! Runs the conformance suite between two threads of this host: over TCP, over libfabric's shared memory, and within a
//! NIC.

use core::time::Duration;
use via_conformance::run::{AnyNic, Case, Verdict, conclude, in_threads, trials};
use via_ofi::Config;

/// Watchdog time.
const PATIENCE: Duration = Duration::from_secs(120);

fn play(case: &Case, place: &str, is_one: bool) -> Verdict {
    let config = Config::new(place.parse().expect("a place"));
    let first = match config.open() {
        Ok(first) => first,
        Err(why) => return Verdict::Failed(why.to_string()),
    };
    let server = first.address(b"server");
    in_threads(case, PATIENCE, move |role| {
        let nic = if role == "server" || is_one {
            config.open_beside(&first)
        } else {
            config.open().expect("as the first")
        };
        (AnyNic::Ofi(nic), server.clone())
    })
}

fn main() {
    let ways = [
        ("tcp", "tcp;ofi_rxm@127.0.0.1", false),
        ("shm", "shm", false),
        ("within_a_nic", "tcp;ofi_rxm@127.0.0.1", true),
    ];
    let way = |(name, place, is_one): (_, &'static str, _)| {
        trials(name, move |case: &Case| play(case, place, is_one))
    };
    conclude(ways.into_iter().flat_map(way).collect());
}
