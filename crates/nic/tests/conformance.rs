//! The suite of the VI core over the enums, with each provider beneath.

use core::time::Duration;
use sovia_nic::AnyNic;
use via::Nic;
use via_conformance::Case;
use via_conformance::run::{Verdict, conclude, in_threads, trials};
use via_sim::{Config, Network};

/// A watchdog.
const PATIENCE: Duration = Duration::from_secs(120);

fn over_shared_memory(case: &Case<AnyNic>) -> Verdict {
    let name = format!("any-{}-{}", std::process::id(), case.name);
    let name = name[..name.len().min(63)].to_owned();
    in_threads(case, PATIENCE, move |_| {
        let nic = AnyNic::open("shm", &name).unwrap();
        let server = via::NetAddress::new(&nic.attributes().local_address, b"server");
        (nic, server)
    })
}

fn over_udp(case: &Case<AnyNic>) -> Verdict {
    let first = via_eth::Config::new("udp:127.0.0.1:0".parse().unwrap()).open().unwrap();
    let server = first.address(b"server");
    in_threads(case, PATIENCE, move |role| {
        let config = via_eth::Config::new("udp:127.0.0.1:0".parse().unwrap());
        let nic =
            if role == "server" { config.open_beside(&first) } else { config.open().unwrap() };
        (AnyNic::Eth(nic), server.clone())
    })
}

fn over_a_simulated_network(case: &Case<AnyNic>) -> Verdict {
    let network = Network::new(0, Config::default().live());
    let server = network.nic("one").address(b"server");
    in_threads(case, PATIENCE, move |role| {
        (AnyNic::Sim(network.nic(if role == "server" { "one" } else { "two" })), server.clone())
    })
}

fn main() {
    let mut all = trials("shm", over_shared_memory);
    all.extend(trials("sim", over_a_simulated_network));
    all.extend(trials("udp", over_udp));
    conclude(all)
}
