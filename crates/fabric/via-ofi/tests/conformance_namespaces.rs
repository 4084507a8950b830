//! Runs the conformance suite between two hosts: network namespaces of this process, joined by a pair of devices, with
//! libfabric's tcp;ofi_rxm between them.

mod hosts;

use core::time::Duration;
use hosts::Hosts;
use std::sync::Arc;
use via_conformance::run::{AnyNic, Case, Verdict, conclude, in_threads, trials};
use via_ofi::Config;

/// Watchdog time.
const PATIENCE: Duration = Duration::from_secs(120);

fn config(host: usize) -> Config {
    let place = format!("tcp;ofi_rxm@10.0.0.{}", host + 1);
    Config::new(place.parse().expect("a place"))
}

fn play(case: &Case, hosts: &Arc<Hosts>) -> Verdict {
    let first = match hosts.at(0, || config(0).open()) {
        Ok(first) => first,
        Err(why) => return Verdict::Failed(why.to_string()),
    };
    let (server, hosts) = (first.address(b"server"), hosts.clone());
    in_threads(case, PATIENCE, move |role| {
        // Polling threads of a program also make connections to other hosts.
        let nic = if role == "server" {
            hosts.enter(0);
            config(0).open_beside(&first)
        } else {
            hosts.enter(1);
            config(1).open().expect("as the first")
        };
        (AnyNic::Ofi(nic), server.clone())
    })
}

fn main() {
    let hosts = match Hosts::make() {
        Ok(hosts) => Arc::new(hosts),
        Err(why) => return println!("SKIPPED: between_hosts: {why}"),
    };
    match hosts.at(0, || config(0).open()) {
        Ok(_) => conclude(trials("between_hosts", move |case| play(case, &hosts))),
        Err(why) => println!("SKIPPED: between_hosts: {why}"),
    }
}
