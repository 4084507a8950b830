//! The suite of the VI core, between two threads: over a perfect network, over one where
//! everything goes wrong that may, and between two VIs of the same NIC.

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use via::conformance::{Case, Context, cases};
use via_sim::{Config, Link, Network, SimNic};

const PATIENCE: Duration = Duration::from_secs(20);

fn play(case: &Case<SimNic>, seed: u64, config: Config, names: [&str; 2]) -> Result<(), String> {
    let network = Network::new(seed, config.live());
    let address = network.nic(names[0]).address(case.name.as_bytes());
    let (tell, told) = mpsc::channel();
    let roles = [("server", case.server), ("client", case.client)];
    for ((role, run), name) in roles.into_iter().zip(names) {
        let (nic, server, tell) = (network.nic(name), address.clone(), tell.clone());
        thread::spawn(move || {
            let run = AssertUnwindSafe(|| run(&Context { nic: &nic, server }));
            let result = catch_unwind(run).map_err(|_| format!("the {role} panicked"));
            let _ = tell.send(result);
        });
    }
    // A role that fails leaves the other waiting: its own failure is the one to tell.
    let next = || told.recv_timeout(PATIENCE).unwrap_or(Err("hangs".into()));
    next().and_then(|()| next())
}

/// Says which cases failed, with the seed.
fn all(config: Config, names: [&str; 2], seeds: core::ops::Range<u64>) {
    let mut failed = Vec::new();
    for case in cases::<SimNic>() {
        let begin = std::time::Instant::now();
        for seed in seeds.clone() {
            if let Err(why) = play(&case, seed, config, names) {
                failed.push(format!("{} with seed {seed}: {why}", case.name));
            }
        }
        println!("{} {:?}", case.name, begin.elapsed());
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
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
