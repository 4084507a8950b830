//! The suite of the VI core between two hosts: network namespaces of this process's, joined by a pair of devices, with libfabric's
//! tcp;ofi_rxm between them.

use core::time::Duration;
use sovia_sys::{Fd, netns};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use via_conformance::Case;
use via_conformance::run::{Verdict, conclude, in_threads, trials};
use via_ofi::{Config, OfiNic};

/// A watchdog.
const PATIENCE: Duration = Duration::from_secs(60);

/// The hosts of the server and of the client.
struct Hosts([Fd; 2]);

/// Runs `ip`; what it complains of.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|why| format!("the program ip: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

/// On a thread of its own, which takes its network namespace with it.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|s| s.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

impl Hosts {
    /// Makes them.
    fn make() -> Result<Hosts, String> {
        let fresh = || elsewhere(|| netns::fresh().and_then(|()| netns::current()));
        let fresh = || fresh().map_err(|why| format!("no network namespace can be made: {why}"));
        let hosts = Hosts([fresh()?, fresh()?]);
        let other = format!("/proc/{}/fd/{}", std::process::id(), hosts.0[1].raw());
        hosts.at(0, || ip(&format!("link add way type veth peer name way netns {other}")))?;
        for (host, address) in [(0, "10.0.0.1"), (1, "10.0.0.2")] {
            hosts.at(host, || {
                ip(&format!("addr add {address}/24 dev way"))?;
                ip("link set way up")
            })?;
        }
        Ok(hosts)
    }

    /// Takes the calling thread to a host.
    fn enter(&self, host: usize) {
        netns::enter(&self.0[host]).expect("a namespace of this process's");
    }

    /// Does something there.
    fn at<R: Send>(&self, host: usize, work: impl FnOnce() -> R + Send) -> R {
        elsewhere(|| {
            self.enter(host);
            work()
        })
    }
}

fn config(host: usize) -> Config {
    let place = format!("tcp;ofi_rxm@10.0.0.{}", host + 1);
    Config::new(place.parse().expect("a place"))
}

fn play(case: &Case<OfiNic>, hosts: &Arc<Hosts>) -> Verdict {
    let first = match hosts.at(0, || config(0).open()) {
        Ok(first) => first,
        Err(why) => return Verdict::Failed(why.to_string()),
    };
    let (server, hosts) = (first.address(b"server"), hosts.clone());
    in_threads(case, PATIENCE, move |role| {
        // Connections to other hosts are made by the threads of a program that look, too.
        let nic = if role == "server" {
            hosts.enter(0);
            config(0).open_beside(&first)
        } else {
            hosts.enter(1);
            config(1).open().expect("as the first")
        };
        (nic, server.clone())
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
