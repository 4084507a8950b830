//! Runs the tests between agents whose frames travel on a VI of a NIC that both have: here libfabric's
//! NIC, over TCP.

use super::run;
use super::scene::{AGENTS, PORT, Scene, WATCHDOG};
use sovia_tests::{FarNic, FarPair, Hosts, Scenario, accelerated, until};

/// Option that selects the agents' NIC.
const NIC: [&str; 2] = ["--fabric", "ofi:tcp;ofi_rxm"];
/// Output of an agent when this NIC carries frames.
const CARRIES: &str = "go by ofi:tcp;ofi_rxm";
/// Options that make the NIC carry all frames, because UDP loses them.
const NO_UDP: [&str; 4] = ["--lose", "1000000", "--fabric", "ofi:tcp;ofi_rxm"];

/// Returns true if libfabric is installed; otherwise prints that the test is skipped.
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

/// Makes the firewalls of both hosts drop UDP, once the NICs carry frames in both directions.
fn shut_udp(scene: &Scene) {
    let ends = scene.converse("1", &["once"]);
    assert_eq!(ends[1].stdout, "accelerated\nok\n", "{ends:#?}");
    [0, 1].into_iter().for_each(|host| scene.shut_udp(host));
}

#[test]
fn nginx_serves_files_by_libfabric() {
    let test = "nginx_serves_files_by_libfabric";
    let programs = ["nginx", "wrk", "curl", "nft", "ss"];
    let Some((scene, _agents)) = scene(test, &programs) else { return };
    shut_udp(&scene);
    let served: Vec<u8> =
        (0..30_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let server = scene.nginx(&served);
    let site = format!("http://{}:{PORT}", Hosts::ADDRESSES[1]);
    let fetch = || {
        let copy = scene.folder.path().join("copy");
        let words = ["curl", "-sSf", "-o", "copy", &format!("{site}/served")];
        let fetched = scene.start(0, &words).finish(WATCHDOG);
        assert!(fetched.success(), "{fetched:?}");
        assert!(std::fs::read(copy).expect("the fetched file") == served, "it arrives changed");
        accelerated(&fetched.stderr) == Some(1)
    };
    // All of a file may arrive before the ends have met, if an agent gets no processor.
    let fetch = || until("every file comes before the ends have met", fetch);
    fetch();
    scene.is_carried_by_nics(fetch);
    for what in ["hello", "served"] {
        let words = ["wrk", "-t2", "-c20", "-d2s", "--timeout", "60s", &format!("{site}/{what}")];
        let outcome = scene.start(0, &words).finish(WATCHDOG);
        assert!(outcome.success() && outcome.stdout.contains("Requests/sec"), "{outcome:?}");
        let is_clean = ["errors", "Non-2xx"].iter().all(|it| !outcome.stdout.contains(it));
        assert!(is_clean, "{outcome:?}");
        assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends >= 20), "{outcome:?}");
    }
    server.signal(libc::SIGQUIT);
    assert!(server.finish(WATCHDOG).success(), "the server's exit");
}

#[test]
fn iperf3_measures_both_ways_by_libfabric() {
    let test = "iperf3_measures_both_ways_by_libfabric";
    let Some((scene, _agents)) = scene(test, &["iperf3", "nft", "ss"]) else { return };
    shut_udp(&scene);
    let address = Hosts::ADDRESSES[1];
    let server = scene.start(1, &["iperf3", "-s", "-B", address, "-p", PORT]);
    scene.listens("the server does not listen");
    let measure = |words: &[&str]| {
        let words = [&["iperf3", "-c", address, "-p", PORT], words].concat();
        let mut last = None;
        // The server may still work for the previous client after that has ended.
        until("the server stays busy", || {
            let outcome = last.insert(scene.start(0, &words).finish(WATCHDOG));
            !outcome.stderr.contains("the server is busy")
        });
        let outcome = last.expect("it has run");
        let is_done = outcome.success() && outcome.stdout.contains("iperf Done.");
        assert!(is_done && outcome.stdout.contains("receiver"), "{outcome:?}");
        // The connection on which the two agree may end before its ends have met.
        assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends >= 1), "{outcome:?}");
    };
    for way in [&["-t", "2"][..], &["-R", "-t", "2"], &["-P4", "-t", "2"], &["--bidir", "-t", "2"]]
    {
        measure(way);
    }
    // Long enough for its ends to meet while other tests run.
    scene.is_carried_by_nics(|| measure(&["-n", "200M"]));
    server.signal(libc::SIGTERM);
    server.finish(WATCHDOG);
}

/// Cuts the link between the hosts again and again, below libfabric's connection and the agents' own.
#[test]
fn connections_outlive_a_nic_that_goes_away() {
    let test = "connections_outlive_a_nic_that_goes_away";
    let programs = ["redis-server", "redis-benchmark", "ss"];
    let Some((scene, [a, b])) = scene(test, &programs) else { return };
    let mut load = scene.load();
    // If the connection was idle at that moment, libfabric reconnects before the connection is
    // needed.
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

/// Agents that have only UDP in common.
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
