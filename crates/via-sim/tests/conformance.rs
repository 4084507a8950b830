//! The suite of the VI core, between two threads: over a perfect network, over one where
//! everything goes wrong that may, and between two VIs of the same NIC.

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use via::conformance::run::{Report, Verdict};
use via::conformance::{Case, Context, cases};
use via_sim::{Config, Link, Network, SimNic};

const PATIENCE: Duration = Duration::from_secs(12);

fn said(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&s| s.into())).unwrap_or_default()
}

/// Runs a case's two roles in two threads, each on the NIC of its own name.
fn play(case: &Case<SimNic>, network: &Network, names: [&str; 2]) -> Verdict {
    let nic = network.nic(names[0]);
    if let Some(need) = case.missing(&nic) {
        return Verdict::Skipped(need);
    }
    // A byte shorter than it may be, as the suite asks for.
    let discriminator = case.name.as_bytes();
    let server = nic.address(&discriminator[..discriminator.len().min(63)]);
    let (tell, told) = mpsc::channel();
    let roles = [("server", case.server), ("client", case.client)];
    for ((role, run), name) in roles.into_iter().zip(names) {
        let (nic, server, tell) = (network.nic(name), server.clone(), tell.clone());
        thread::spawn(move || {
            let run = AssertUnwindSafe(|| run(&Context { nic: &nic, server }));
            let result = catch_unwind(run).map_err(|why| format!("{role}: {}", said(&*why)));
            let _ = tell.send(result);
        });
    }
    // A role that fails leaves the other waiting: its own failure is the one to tell.
    for _ in 0..2 {
        if let Err(why) = told.recv_timeout(PATIENCE).unwrap_or(Err("hangs".into())) {
            return Verdict::Failed(why);
        }
    }
    Verdict::Passed
}

/// Runs the cases of every group that is wanted, or the one that the variable `CASE` names. The
/// network draws its faults from the case's number.
fn all(config: Config, names: [&str; 2], wanted: impl Fn(&str) -> bool) {
    let mut report = Report::default();
    let only = std::env::var("CASE").ok();
    for (seed, case) in cases::<SimNic>().into_iter().enumerate() {
        if wanted(case.group) && only.as_ref().is_none_or(|only| *only == case.name) {
            let network = Network::new(seed as u64, config.live());
            let verdict = play(&case, &network, names);
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
