//! The suite of the VI core against shared memory: between threads, and between processes.
#![cfg(not(loom))]

mod common;

use common::{PATIENCE, finish, start};
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use via::conformance::{Case, Context, cases};
use via_shm::ShmNic;

/// The NIC and the discriminator of one run of a case, for both of its roles.
fn place(kind: &str, case: &str) -> (String, String) {
    let place = format!("{kind}-{case}");
    // A discriminator has 32 bytes; the NIC's name keeps the runs apart.
    (format!("{}-{}", &place[..place.len().min(40)], std::process::id()), "server".into())
}

fn run(role: fn(&Context<'_, ShmNic>), nic: &str, discriminator: &str) {
    let nic = ShmNic::open(nic).unwrap();
    let server = nic.address(discriminator.as_bytes());
    role(&Context { nic: &nic, server });
}

/// Says which cases failed, and why.
fn all(try_it: impl Fn(&Case<ShmNic>) -> Result<(), String>) {
    let mut failed = Vec::new();
    // One case alone, by name.
    let only = env::var("VIA_ONLY").ok();
    let wanted = |case: &Case<ShmNic>| only.as_ref().is_none_or(|only| case.name == only);
    for case in cases::<ShmNic>().into_iter().filter(wanted) {
        let begin = std::time::Instant::now();
        if let Err(why) = try_it(&case) {
            failed.push(format!("{}: {why}", case.name));
        }
        println!("{} {:?}", case.name, begin.elapsed());
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn between_threads() {
    all(|case| {
        let (nic, discriminator) = place("threads", case.name);
        let (tell, told) = mpsc::channel();
        for (name, role) in [("server", case.server), ("client", case.client)] {
            let (nic, discriminator, tell) = (nic.clone(), discriminator.clone(), tell.clone());
            thread::spawn(move || {
                let role = AssertUnwindSafe(|| run(role, &nic, &discriminator));
                let result = catch_unwind(role).map_err(|_| format!("the {name} panicked"));
                let _ = tell.send(result);
            });
        }
        // A role that fails leaves the other waiting: its own failure is the one to tell.
        let first = told.recv_timeout(PATIENCE).unwrap_or(Err("hangs".into()));
        first.and_then(|()| told.recv_timeout(PATIENCE).unwrap_or(Err("hangs".into())))
    });
}

#[test]
fn between_processes() {
    all(|case| {
        let (nic, discriminator) = place("processes", case.name);
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
            (Err(client), Err(server)) => Err(format!("{client}\n{server}")),
            (client, server) => client.and(server),
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
