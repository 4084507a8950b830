//! Several hosts on a switch, each with an agent that knows all others. Needs root, so that the kernel shows agents
//! sequence numbers.

use sovia_tests::{Cluster, FarNic, Key, Outcome, Running, TempDir, accelerated, until};
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(120);

fn is_accelerated(program: &Running) -> bool {
    program.stdout_so_far().contains("accelerated\n")
}

fn ends_well(outcome: &Outcome, stdout: &str) {
    assert!(outcome.success() && outcome.stdout == stdout, "{outcome:#?}");
}

/// Ends a Redis server, and checks the number of its connections on VIs.
fn ends_after(server: Running, connections: u64) {
    server.signal(libc::SIGTERM);
    let served = server.finish(WATCHDOG);
    assert!(served.success(), "{served:#?}");
    let ends = accelerated(&served.stderr);
    assert!(ends.is_some_and(|ends| ends >= connections), "{}", served.stderr);
}

#[test]
fn redis_serves_three_hosts_while_one_agent_is_replaced() {
    let test = "redis_serves_three_hosts_while_one_agent_is_replaced";
    let Some(cluster) = Cluster::new(test, 4, &["redis-server"]) else { return };
    let Some(mut agents) = cluster.agents(test) else { return };
    let server = cluster.redis();
    let stay = [1, 2].map(|host| cluster.asks(host, "redis_until_told"));
    let loses = cluster.asks(3, "redis_until_told");
    until("not all are accelerated", || stay.iter().chain([&loses]).all(is_accelerated));
    let before = agents[0].meetings();
    drop(agents.pop());
    agents.extend(cluster.agent(test, 3));
    until("the first host's agent does not meet the new one", || agents[0].meetings() > before);
    ends_well(&cluster.asks(3, "redis").finish(WATCHDOG), "ok\n");
    cluster.enough();
    for program in stay {
        ends_well(&program.finish(WATCHDOG), "accelerated\nstill\nok\n");
    }
    ends_well(&loses.finish(WATCHDOG), "accelerated\nno longer\nok\n");
    ends_after(server, 4);
}

/// Connections stop with a stopped agent, and continue with it.
#[test]
fn agent_that_stands_still_holds_up_no_other_host() {
    let test = "agent_that_stands_still_holds_up_no_other_host";
    let Some(cluster) = Cluster::new(test, 3, &["redis-server", "redis-benchmark"]) else { return };
    let Some(agents) = cluster.agents(test) else { return };
    let server = cluster.redis();
    let stands = cluster.asks(2, "redis_until_told");
    until("it is not accelerated", || is_accelerated(&stands));
    agents[2].signal(libc::SIGSTOP);
    let outcome = cluster.benchmark(1, 30_000).finish(WATCHDOG);
    assert!(outcome.success() && outcome.stdout.contains("GET"), "{outcome:?}");
    assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends >= 20), "{}", outcome.stderr);
    cluster.enough();
    agents[2].signal(libc::SIGCONT);
    ends_well(&stands.finish(WATCHDOG), "accelerated\nstill\nok\n");
    ends_after(server, 21);
}

/// Runs agents like a distribution's daemon: as a user of its own. An agent drops the privileges of its start before
/// it receives a frame.
#[test]
fn agents_serve_their_user_without_privileges() {
    const USER: u32 = 65534;
    let test = "agents_serve_their_user_without_privileges";
    let programs = ["redis-server", "redis-benchmark"];
    let Some(cluster) = Cluster::of_user(test, USER, 2, &programs) else { return };
    let Some(agents) = cluster.agents(test) else { return };
    for agent in &agents {
        let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id()));
        let status = status.expect("it lives");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_else(|| panic!("{name}: {status}")).trim()
        };
        if agent.said().contains("the agent keeps CAP_BPF") {
            // Kernels before 5.19 require this, and the agent has printed so.
            assert_eq!(field("CapEff"), "0000008000000000", "{status}");
        } else {
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(field(set), "0000000000000000", "{set}");
            }
        }
        assert_eq!(field("NoNewPrivs"), "1");
        assert_eq!(field("Uid").split_whitespace().next(), Some("65534"));
    }
    let server = cluster.redis();
    let outcome = cluster.benchmark(1, 20_000).finish(WATCHDOG);
    assert!(outcome.success() && outcome.stdout.contains("GET"), "{outcome:?}");
    assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends >= 20), "{}", outcome.stderr);
    ends_after(server, 20);
}

/// Returns the error of an agent that cannot start.
fn refused(folder: &TempDir, key: &Key, options: &[&str]) -> String {
    let started = FarNic::start_with(folder, "", "refused", ("127.0.0.1:7471", key), options);
    started.expect_err("it is refused")
}

#[test]
fn two_peers_that_claim_one_network_are_refused() {
    let folder = TempDir::new();
    let keys = ["own", "a", "b"].map(|name| Key::new(&folder, name));
    let [own, a, b] = &keys;
    let one = format!("{}@127.0.0.2:7471,10.0.0.0/8,10.1.0.0/16", a.public);
    let other = format!("{}@127.0.0.3:7471,10.1.2.3/16", b.public);
    let both = ["--peer", &one, "--peer", &other];
    let said = refused(&folder, own, &both);
    assert!(said.contains("both have the network 10.1.0.0/16"), "{said}");
    let said = refused(&folder, own, &[&both[..], &["--peer-network", "10.0.0.0/8"]].concat());
    assert!(said.contains("cannot use --peer-network with several agents"), "{said}");
}

#[test]
fn mistake_in_a_file_of_peers_is_named_with_its_line() {
    let folder = TempDir::new();
    let keys = ["own", "a"].map(|name| Key::new(&folder, name));
    let [own, a] = &keys;
    let file = folder.path().join("peers");
    let path = file.to_str().expect("a plain name");
    for (text, expected) in [
        (
            format!("# all\n{} 127.0.0.2\n", a.public),
            "line 2: `127.0.0.2` is not the address of an agent",
        ),
        (format!("{} 127.0.0.2:1 10/8\n", a.public), "line 1: `10/8` is not a network"),
        (format!("\n\n{} 127.0.0.2:1\n", &a.public[1..]), "line 3: `"),
        (format!("{0} 127.0.0.2:1\n{0} 127.0.0.3:1\n", a.public), "line 2 have the same key"),
        (format!("{} 127.0.0.2:1\n", own.public), "line 1: this is the agent's own key"),
        ("# nobody\n".to_owned(), "no peer given"),
    ] {
        std::fs::write(&file, text).expect("a file");
        let said = refused(&folder, own, &["--peers", path]);
        assert!(said.contains(expected), "expected {expected:?}: {said}");
    }
    let said = refused(&folder, own, &["--peers", "/nowhere/peers"]);
    assert!(said.contains("/nowhere/peers") && said.contains("No such file"), "{said}");
}
