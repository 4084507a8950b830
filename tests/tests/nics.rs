//! Connections whose ends share no memory. NICs in software carry them over a link that loses, duplicates, delays
//! and corrupts frames. Programs must see the same as over the kernel.

use std::net::TcpStream;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use sovia_tests::{
    LOSSY, Launch, Nics, Outcome, Scenario, Stack, TempDir, accelerated, free_port, skipped, sovia,
};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs a scenario between two NICs, once both ends have their VI.
fn between_nics(_test: &str, scenario: Scenario) {
    let nics = Nics::start(LOSSY);
    scenario.env("SOVIA_RULES", nics.rules()).env("SOVIA_TEST_UNTIL_MET", "1").run_accelerated();
}

sovia_tests::carried_scenarios!(between_nics);

/// A fallback waits for the NIC in the other network namespace for at most two seconds. Then it continues in a relay,
/// even if answers are missing. Half of the frames get lost, so that answers may take as long.
#[test]
fn what_is_taken_back_arrives_though_answers_may_take_longer_than_a_fallback_waits() {
    let nics = Nics::start(&["--lose", "500000"]);
    Scenario::c("taken_back", "under_a_thread_that_receives")
        .watchdog(400)
        .env("SOVIA_RULES", nics.rules())
        .env("SOVIA_TEST_UNTIL_MET", "1")
        .run_accelerated();
}

/// Runs redis-benchmark with `clients` connections against a Redis server, both under these rules. Checks that both were
/// accelerated, or neither. Returns what the benchmark and the server have printed.
fn benchmark_redis(rules: &str, clients: &str, requests: &str) -> [Outcome; 2] {
    let folder = TempDir::new();
    let port = free_port().to_string();
    let launch = |command: &[&str]| {
        Launch::new(Stack::Sovia, command)
            .verbose(true)
            .env("SOVIA_RULES", rules)
            .current_dir(folder.path())
    };
    let mut server = launch(&["redis-server", "--port", &port, "--save", ""]).start();
    let benchmark =
        ["redis-benchmark", "-p", &port, "-n", requests, "-c", clients, "-q", "-t", "set,get"];
    let port: u16 = port.parse().expect("a number");
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(!server.has_ended(), "the server does not listen: {}", server.stdout_so_far());
        sleep(Duration::from_millis(10));
    }
    let outcome = launch(&benchmark).start().finish(LIMIT);
    server.signal(libc::SIGTERM);
    let served = server.finish(LIMIT);
    assert!(outcome.success() && outcome.stdout.contains("GET"), "{outcome:?}");
    assert!(served.success(), "{served:?}");
    let is_accelerated = |end: &Outcome| accelerated(&end.stderr).is_some_and(|ends| ends > 0);
    assert_eq!(is_accelerated(&outcome), is_accelerated(&served), "{outcome:?} {served:?}");
    [outcome, served]
}

#[test]
fn redis_is_served_over_frames_that_get_lost() {
    if skipped("redis_is_served_over_frames_that_get_lost", &["redis-server", "redis-benchmark"]) {
        return;
    }
    let nics = Nics::start(LOSSY);
    let [outcome, _] = benchmark_redis(&nics.rules(), "2", "3000");
    assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends > 0), "{}", outcome.stderr);
}

#[test]
fn only_many_messages_at_the_same_time_leave_tcp() {
    let test = "only_many_messages_at_the_same_time_leave_tcp";
    if skipped(test, &["redis-server", "redis-benchmark"]) {
        return;
    }
    let nics = Nics::start(&[]);
    let rules = nics.rules().replace(",messages=1", "");
    let [few, served] = benchmark_redis(&rules, "20", "10000");
    assert_eq!(accelerated(&few.stderr), Some(0), "{}", few.stderr);
    assert!(few.stderr.contains("too few small messages at the same time"), "{}", few.stderr);
    let reason = "the other end's agent has not offered the connection";
    assert!(served.stderr.contains(reason), "{}", served.stderr);
    let [many, _] = benchmark_redis(&rules, "60", "20000");
    assert!(accelerated(&many.stderr).is_some_and(|ends| ends >= 60), "{}", many.stderr);
}

/// Runs a case of `neighbours.py` with 40 connections that NICs carry only while they have many messages in flight.
/// Returns what the process that asks has printed.
fn forty_connections(case: &str) -> Outcome {
    let nics = Nics::start(&[]);
    let rules = nics.rules().replace(",messages=1", "");
    let port = free_port().to_string();
    let launch = |arguments: &[&str]| {
        let command = ["python3", concat!(env!("CARGO_MANIFEST_DIR"), "/apps-py/neighbours.py")];
        Launch::new(Stack::Sovia, [&command, arguments].concat())
            .verbose(true)
            .env("SOVIA_RULES", &rules)
            .start()
    };
    let answers = launch(&["answer", "127.0.0.1", &port, "40"]);
    let asked = launch(&["ask", case, "127.0.0.1", &port]).finish(LIMIT);
    let answered = answers.finish(LIMIT);
    assert!(answered.success() && asked.success(), "{answered:?} {asked:?}");
    asked
}

#[test]
fn connections_go_back_to_tcp_when_fewer_messages_are_in_flight() {
    if skipped("connections_go_back_to_tcp_when_fewer_messages_are_in_flight", &["python3"]) {
        return;
    }
    let outcome = forty_connections("fewer");
    assert_eq!(outcome.stdout, "accelerated\ntcp\nok\n", "{outcome:?}");
    assert!(outcome.stderr.contains("too few small messages at the same time"), "{outcome:?}");
}

#[test]
fn a_connection_whose_messages_become_long_goes_back_to_tcp() {
    if skipped("a_connection_whose_messages_become_long_goes_back_to_tcp", &["python3"]) {
        return;
    }
    let outcome = forty_connections("longer");
    assert_eq!(outcome.stdout, "accelerated\ntcp\nothers True\nok\n", "{outcome:?}");
}

#[test]
fn connections_stay_on_their_vis_while_many_messages_are_in_flight() {
    if skipped("connections_stay_on_their_vis_while_many_messages_are_in_flight", &["python3"]) {
        return;
    }
    let outcome = forty_connections("still_many");
    assert_eq!(outcome.stdout, "still\nok\n", "{outcome:?}");
    assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends == 40), "{}", outcome.stderr);
}

#[test]
fn without_its_nic_a_connection_stays_on_tcp() {
    Scenario::c("stream_calls", "waitall_waits_for_all")
        .env("SOVIA_RULES", "nic:name=nowhere")
        .may_stay_on_tcp()
        .run_accelerated();
}

#[test]
fn an_end_whose_peer_has_no_nic_stays_on_tcp() {
    let nics = Nics::start(&[]);
    let scenario = Scenario::c("stream_calls", "waitall_waits_for_all");
    let name = nics.name();
    scenario
        .env("SOVIA_RULES", format!("nic:name={name},end=connector,messages=1;except:end=acceptor"))
        .may_stay_on_tcp()
        .run_accelerated();
}

#[test]
fn two_nics_of_one_name_are_one_too_many() {
    let nics = Nics::start(&[]);
    let folder = TempDir::new();
    let output = Command::new(sovia())
        .args(["agent", "--name", nics.name(), "--port"])
        .arg(folder.path().join("port"))
        .arg("--peer")
        .arg(folder.path().join("peer"))
        .output()
        .expect("sovia agent starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(nics.name()), "{said}");
}

#[test]
fn a_rule_without_a_nic_is_refused_with_what_is_expected() {
    for rule in ["port=1", "name=a/b", "name=a,end=both"] {
        let output = Command::new(sovia())
            .args(["run", "--nic", rule, "--", "true"])
            .output()
            .expect("sovia run starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(125) && said.contains("--nic"), "{said}");
    }
}
