//! Runs the conformance suite of VIs on shared memory. Each case is one test between threads, and another between
//! processes.

mod common;

use common::{PATIENCE, finish, start};
use std::env;
use via::NetAddress;
use via_conformance::Context;
use via_conformance::run::{AnyNic, Case, Verdict, cases, conclude, in_threads, trials};
use via_shm::ShmNic;

/// Environment variable that tells a child process which case it runs.
const CASE: &str = "VIA_CASE";

/// Returns the NIC's name and the discriminator for one run of a case. Both roles use them.
fn place(kind: &str, case: &str) -> (String, String) {
    let place = format!("{kind}-{case}");
    // A NIC's name has at most 63 bytes, so cut the case's name. The NIC's name differs for each run, so the
    // discriminator can be constant.
    (format!("{}-{}", &place[..place.len().min(50)], std::process::id()), "server".into())
}

fn open(name: &str, discriminator: &str) -> (AnyNic, NetAddress) {
    let nic = ShmNic::open(name).unwrap();
    let server = nic.address(discriminator.as_bytes());
    (AnyNic::Shm(nic), server)
}

fn run(role: fn(&Context<'_, AnyNic>), nic: &str, discriminator: &str) {
    let (nic, server) = open(nic, discriminator);
    role(&Context { nic: &nic, server });
}

fn between_threads(case: &Case) -> Verdict {
    let (nic, discriminator) = place("threads", case.name);
    in_threads(case, PATIENCE, move |_| open(&nic, &discriminator))
}

fn between_processes(case: &Case) -> Verdict {
    let (nic, discriminator) = place("processes", case.name);
    if let Some(need) = case.missing(&open(&nic, &discriminator).0) {
        return Verdict::Skipped(need);
    }
    let part = |role: &str| {
        let variables = [
            (CASE, case.name),
            ("VIA_ROLE", role),
            ("VIA_NIC", &nic),
            ("VIA_DISCRIMINATOR", &discriminator),
        ];
        start("role", &variables)
    };
    let (server, client) = (part("server"), part("client"));
    let client = finish(client).map_err(|e| format!("client: {e}"));
    let server = finish(server).map_err(|e| format!("server: {e}"));
    match (client, server) {
        (Ok(()), Ok(())) => Verdict::Passed,
        (client, server) => {
            let output = [client, server].into_iter().filter_map(Result::err);
            Verdict::Failed(output.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Runs one role of a case, in a child process.
fn play(name: &str) {
    let var = |name| env::var(name).unwrap();
    let case = cases().into_iter().find(|case| case.name == name).unwrap();
    let role = if var("VIA_ROLE") == "server" { case.server } else { case.client };
    run(role, &var("VIA_NIC"), &var("VIA_DISCRIMINATOR"));
}

fn main() {
    match env::var(CASE) {
        Ok(name) => play(&name),
        Err(_) => {
            let mut all = trials("threads", between_threads);
            all.extend(trials("processes", between_processes));
            conclude(all)
        }
    }
}
