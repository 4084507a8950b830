//! Runs the conformance suite of VIs between two Ethernet devices, by packet sockets and by `AF_XDP`. Each case has a
//! veth pair, in a network namespace of this process.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::process::Command;
use via_conformance::run::{AnyNic, Case, Verdict, conclude, in_threads, trials};
use via_eth::{Config, EthNic};

/// Time limit that ends a hanging case.
const PATIENCE: Duration = Duration::from_secs(120);

static CASES: AtomicU32 = AtomicU32::new(0);

/// Runs `ip`, and returns its error output if it fails.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|why| format!("the program ip: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

/// A pair of connected devices. Dropping it removes the devices.
struct Pair(u32);

impl Pair {
    fn make() -> Result<Pair, String> {
        let pair = Pair(CASES.fetch_add(1, Ordering::Relaxed));
        let [one, other] = pair.names();
        ip(&format!("link add {one} type veth peer name {other}"))?;
        ip(&format!("link set {one} up"))?;
        ip(&format!("link set {other} up"))?;
        Ok(pair)
    }

    fn names(&self) -> [String; 2] {
        [format!("one{}", self.0), format!("other{}", self.0)]
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let [one, _] = self.names();
        let _ = ip(&format!("link del {one}"));
    }
}

fn open(kind: &str, device: &str) -> Result<EthNic, String> {
    let place = format!("{kind}:{device}").parse().expect("a place");
    Config::new(place).open().map_err(|error| error.to_string())
}

fn play(case: &Case, kind: &'static str) -> Verdict {
    let pair = Pair::make().expect("a first pair could be made");
    let [one, other] = pair.names();
    // Opens each device only once, because a dropped NIC occupies its device for a little longer.
    let ends = [one, other].map(|device| {
        let nic = open(kind, &device).expect("a port could be opened before");
        let place = format!("{kind}:{device}").parse().expect("a place");
        (nic, Config::new(place))
    });
    let server = ends[0].0.address(b"server");
    in_threads(case, PATIENCE, move |role| {
        let (nic, config) = &ends[usize::from(role != "server")];
        (AnyNic::Eth(config.open_beside(nic)), server.clone())
    })
}

/// Checks that this process may create devices and open ports of a kind.
fn probe(kind: &str) -> Result<(), String> {
    let pair = Pair::make()?;
    open(kind, &pair.names()[0]).map(drop)
}

fn main() {
    // Threads that start later also run in this namespace.
    if let Err(why) = sovia_sys::netns::fresh() {
        println!("SKIPPED: no network namespace can be made: {why}");
        return;
    }
    let mut all = Vec::new();
    for kind in ["eth", "xdp"] {
        match probe(kind) {
            Ok(()) => all.extend(trials(kind, move |case: &Case| play(case, kind))),
            Err(why) => println!("SKIPPED: {kind}: {why}"),
        }
    }
    conclude(all);
}
