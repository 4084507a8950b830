//! Streams over shared memory, in every configuration, between threads and between processes.

use crate::common::cases::cases;
use crate::common::run::{all, in_threads};
use crate::common::{Context, LONG};
use sovia_stream::Configuration;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use via_shm::ShmNic;

/// Returns a new NIC name for each run of a case.
fn nic_of(kind: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("stream-{kind}-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn between_threads() {
    all(cases(), |case, _, configuration| {
        let name = nic_of("threads");
        in_threads(case, configuration, move |_| {
            let nic = ShmNic::open(&name).unwrap();
            let address = nic.address(b"stream");
            (nic, address)
        })
    });
}

/// Starts this program again to play a role.
fn start(role: &str, case: &str, nic: &str, configuration: &Configuration) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["shm::role", "--exact", "--nocapture", "--test-threads=1"])
        .envs([("SOVIA_ROLE", role), ("SOVIA_PLAYS", case), ("SOVIA_NIC", nic)])
        .env("SOVIA_CONFIGURATION", configuration.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finish(role: &str, mut child: Child) -> Result<(), String> {
    let begin = Instant::now();
    let mut hangs = "";
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > 2 * LONG {
            hangs = " hangs";
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if child.wait().unwrap().success() {
        return Ok(());
    }
    let mut said = String::new();
    let _ = child.stdout.unwrap().read_to_string(&mut said);
    let _ = child.stderr.unwrap().read_to_string(&mut said);
    Err(format!("{role}{hangs}: {said}"))
}

#[test]
fn between_processes() {
    all(cases::<ShmNic>(), |case, _, configuration: &Configuration| {
        let nic = nic_of("processes");
        let [server, client] =
            ["server", "client"].map(|role| start(role, case.name, &nic, configuration));
        let client = finish("client", client);
        finish("server", server).and(client)
    });
}

/// A role of a case, in a process of its own. Does nothing without its environment variables.
#[test]
fn role() {
    let Ok(role) = std::env::var("SOVIA_ROLE") else { return };
    let var = |name| std::env::var(name).unwrap();
    let nic = ShmNic::open(&var("SOVIA_NIC")).unwrap();
    let address = nic.address(b"stream");
    let plays = var("SOVIA_PLAYS");
    let case = cases::<ShmNic>().into_iter().find(|case| case.name == plays).unwrap();
    let context = Context::new(nic, address, var("SOVIA_CONFIGURATION").parse().unwrap());
    if role == "server" { (case.server)(&context) } else { (case.client)(&context) }
}
