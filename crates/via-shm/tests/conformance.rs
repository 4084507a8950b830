//! The suite of the VI core against shared memory: between threads, and between processes.
#![cfg(not(loom))]

mod common;

use common::{PATIENCE, finish, start};
use std::env;
use via::conformance::run::{Report, Verdict, in_threads};
use via::conformance::{Case, Context, cases};
use via_shm::ShmNic;

/// The NIC and the discriminator of one run of a case, for both of its roles.
fn place(kind: &str, case: &str) -> (String, String) {
    let place = format!("{kind}-{case}");
    // A discriminator has 32 bytes; the NIC's name keeps the runs apart.
    (format!("{}-{}", &place[..place.len().min(50)], std::process::id()), "server".into())
}

fn run(role: fn(&Context<'_, ShmNic>), nic: &str, discriminator: &str) {
    let nic = ShmNic::open(nic).unwrap();
    let server = nic.address(discriminator.as_bytes());
    role(&Context { nic: &nic, server });
}

/// Says what became of each: of all, or of those whose names or groups contain `VIA_ONLY`.
fn all(try_it: impl Fn(&Case<ShmNic>) -> Verdict) {
    let mut report = Report::default();
    let only = env::var("VIA_ONLY").unwrap_or_default();
    let wanted = |case: &Case<ShmNic>| case.name.contains(&only) || case.group.contains(&only);
    for case in cases::<ShmNic>().into_iter().filter(wanted) {
        let begin = std::time::Instant::now();
        report.add(&case, try_it(&case));
        println!("{} {:?}", case.name, begin.elapsed());
    }
    println!("{report}");
    report.check();
}

#[test]
fn between_threads() {
    all(|case| {
        let (nic, discriminator) = place("threads", case.name);
        in_threads(case, PATIENCE, move |_| {
            let nic = ShmNic::open(&nic).unwrap();
            let server = nic.address(discriminator.as_bytes());
            (nic, server)
        })
    });
}

#[test]
fn between_processes() {
    all(|case| {
        let (nic, discriminator) = place("processes", case.name);
        if let Some(need) = case.missing(&ShmNic::open(&nic).unwrap()) {
            return Verdict::Skipped(need);
        }
        let part = |role: &str| {
            let variables = [
                ("VIA_CASE", case.name),
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
                let said = [client, server].into_iter().filter_map(Result::err);
                Verdict::Failed(said.collect::<Vec<_>>().join("\n"))
            }
        }
    });
}

/// One role of a case, in a process of its own; nothing without its variables.
#[test]
fn role() {
    let Ok(name) = env::var("VIA_CASE") else { return };
    let var = |name| env::var(name).unwrap();
    let case = cases::<ShmNic>().into_iter().find(|case| case.name == name).unwrap();
    let role = if var("VIA_ROLE") == "server" { case.server } else { case.client };
    run(role, &var("VIA_NIC"), &var("VIA_DISCRIMINATOR"));
}
