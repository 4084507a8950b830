//! Runs the VI core's test suite between programs whose ports belong to agents.
//!
//! Two agents are connected by UDP, or by a pair of Ethernet devices in a network namespace of this process. In other
//! cases, both programs use one agent or one NIC. Faults also lose, duplicate, reorder, delay and corrupt frames.

mod common;

use common::{agent, name};
use core::time::Duration;
use std::process::Command;
use std::sync::OnceLock;
use via_conformance::run::{AnyNic, Case, Verdict, conclude, in_threads, trials};
use via_eth::{Config, Faults, Place};

/// Time after which a case is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Five percent of the frames for each fault.
const BAD: Faults = Faults::each(50_000);

/// Connection between the two roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each role has an agent of its own.
    Two,
    /// Both roles have the same agent.
    One,
    /// Both roles have the same NIC.
    Within,
}

/// Starts two agents for all cases. The cases share nothing else.
fn agents(kind: &str) -> &'static [String; 2] {
    static UDP: OnceLock<[String; 2]> = OnceLock::new();
    static ETH: OnceLock<[String; 2]> = OnceLock::new();
    let start = |place: &str| {
        let name = name();
        agent(&name, place).expect("an agent could be started before");
        name
    };
    match kind {
        "udp" => UDP.get_or_init(|| [start("udp:127.0.0.1:0"), start("udp:127.0.0.1:0")]),
        _ => ETH.get_or_init(|| [start("eth:one"), start("eth:other")]),
    }
}

fn play(case: &Case, kind: &'static str, way: Way, faults: Option<Faults>) -> Verdict {
    let agents = agents(kind);
    let config =
        move |agent: &String| Config { faults, ..Config::new(Place::Agent(agent.clone())) };
    let first = config(&agents[0]).open().expect("the agent serves this user");
    // Cases run at the same time, at one address, so each needs its own discriminator.
    static CASES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = CASES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let server = first.address(format!("server {number}").as_bytes());
    in_threads(case, PATIENCE, move |role| {
        let nic = match way {
            _ if role == "server" => config(&agents[0]).open_beside(&first),
            Way::Within => config(&agents[0]).open_beside(&first),
            Way::One => config(&agents[0]).open().expect("the agent serves this user"),
            Way::Two => config(&agents[1]).open().expect("the agent serves this user"),
        };
        (AnyNic::Eth(nic), server.clone())
    })
}

/// Runs `ip`. Returns its error output if it fails.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|why| format!("the program ip: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

/// Makes the Ethernet devices and tries a port on one. Fails if this process may not do so.
fn devices() -> Result<(), String> {
    sovia_sys::netns::fresh().map_err(|why| format!("no network namespace can be made: {why}"))?;
    ip("link set lo up")?;
    ip("link add one type veth peer name other")?;
    ip("link set one up")?;
    ip("link set other up")?;
    Place::Device("one".into())
        .open(sovia_port::Use::Switch)
        .map(drop)
        .map_err(|why| why.to_string())
}

fn main() {
    let mut kinds = vec!["udp"];
    // Enter the namespace before other threads start, so that they are in the namespace as well.
    match devices() {
        Ok(()) => kinds.push("eth"),
        Err(why) => println!("SKIPPED: eth: {why}"),
    }
    let mut all = Vec::new();
    for kind in kinds {
        let mut way = |name: &str, way, faults| {
            let play = move |case: &Case| play(case, kind, way, faults);
            all.extend(trials(&format!("{kind}::{name}"), play));
        };
        way("two_agents", Way::Two, None);
        way("one_agent", Way::One, None);
        if kind == "udp" {
            way("within_a_nic", Way::Within, None);
            way("bad_network", Way::Two, Some(BAD));
        }
    }
    conclude(all);
}
