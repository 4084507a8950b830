//! The same between agents whose frames go by a VI of a NIC that both have: here libfabric's, over TCP.

use super::run;
use super::scene::{AGENTS, PORT, Scene, WATCHDOG};
use sovia_tests::{FarNic, FarPair, Hosts, Scenario, accelerated, until};

/// Which NIC the agents have.
const NIC: [&str; 2] = ["--fabric", "ofi:tcp;ofi_rxm"];
/// What an agent says when frames go by it.
const CARRIES: &str = "go by ofi:tcp;ofi_rxm";
/// What has it carry all frames: UDP does not pass.
const NO_UDP: [&str; 4] = ["--lose", "1000000", "--fabric", "ofi:tcp;ofi_rxm"];

/// Whether libfabric is there; says so in the name of the test where it is not.
fn has_libfabric(test: &str) -> bool {
    let has = std::process::Command::new("sh")
        .args(["-c", "ldconfig -p | grep -q libfabric.so.1"])
        .status();
    let has = has.is_ok_and(|status| status.success());
    if !has {
        println!("SKIPPED: {test}: there is no libfabric");
    }
    has
}

fn carry(agents: [&FarNic; 2]) -> bool {
    agents.iter().all(|agent| agent.said().contains(CARRIES))
}

fn over_libfabric(test: &str, scenario: Scenario) {
    if !has_libfabric(test) {
        return;
    }
    let Some(pair) = FarPair::start(test, &NO_UDP) else { return };
    until("no frames go by the NICs", || carry(pair.nics().each_ref()));
    run(&pair, scenario);
}

sovia_tests::carried_scenarios!(over_libfabric);

/// Two hosts whose agents have such NICs.
fn scene(test: &str, programs: &[&str]) -> Option<(Scene, [FarNic; 2])> {
    if !has_libfabric(test) {
        return None;
    }
    let scene = Scene::set(test, programs)?;
    let agents = [0, 1].map(|host| {
        let peer = format!("{}@{}", scene.keys[1 - host].public, Scene::place(1 - host));
        scene.agent_with(test, host, &peer, &NIC)
    });
    let [Some(a), Some(b)] = agents else { return None };
    until("no frames go by the NICs", || carry([&a, &b]));
    Some((scene, [a, b]))
}

#[test]
fn redis_is_served_by_libfabric() {
    let test = "redis_is_served_by_libfabric";
    let Some((scene, _agents)) = scene(test, &["redis-server", "redis-benchmark"]) else { return };
    let (address, server) = (Hosts::ADDRESSES[1], scene.redis());
    let benchmark = ["redis-benchmark", "-h", address, "-p", PORT, "-n", "60000", "-c", "50", "-q"];
    let outcome = scene.start(0, &[&benchmark[..], &["-t", "set,get"]].concat()).finish(WATCHDOG);
    server.signal(libc::SIGTERM);
    let served = server.finish(WATCHDOG);
    assert!(outcome.success() && outcome.stdout.contains("GET"), "{outcome:?}");
    assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends >= 50), "{}", outcome.stderr);
    assert!(served.success() && accelerated(&served.stderr).is_some_and(|ends| ends >= 50));
}

/// The wire between the hosts is cut below libfabric's connection, and below the agents' own, again and again.
#[test]
fn connections_outlive_a_nic_that_goes_away() {
    let test = "connections_outlive_a_nic_that_goes_away";
    let programs = ["redis-server", "redis-benchmark", "ss"];
    let Some((scene, [a, b])) = scene(test, &programs) else { return };
    let load = scene.load();
    // Where the connection was idle at that moment, libfabric has another one before it is needed.
    let carries = || {
        [&a, &b].iter().all(|agent| {
            let said = agent.said();
            said.lines()
                .rfind(|line| line.contains("frames to"))
                .is_some_and(|it| it.contains(CARRIES))
        })
    };
    load.is_served("nothing is served");
    for _ in 0..3 {
        scene.end_connections_but(&[AGENTS, PORT.parse().expect("a number")]);
        load.is_served("nothing is served any more");
        until("the NICs carry nothing again", carries);
        load.is_served("nothing is served by the NICs");
    }
    load.end([&a, &b]);
}

/// Agents that have nothing in common but UDP.
#[test]
fn agents_with_and_without_such_a_nic_carry_by_udp() {
    let test = "agents_with_and_without_such_a_nic_carry_by_udp";
    if !has_libfabric(test) {
        return;
    }
    let Some(scene) = Scene::set(test, &[]) else { return };
    let peer = format!("{}@{}", scene.keys[1].public, Scene::place(1));
    let agents = (scene.agent_with(test, 0, &peer, &NIC), scene.agent(test, 1));
    let (Some(a), Some(b)) = agents else { return };
    let ends = scene.converse("1", &["once"]);
    assert_eq!(ends[1].stdout, "accelerated\nok\n", "{ends:#?}");
    assert!(!carry([&a, &b]));
}
