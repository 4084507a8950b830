//! Connections between hosts. Each host has an agent, and the two know each other's keys. Programs must see the same
//! as over the kernel. Needs root, so that the kernel shows agents sequence numbers.

mod fabric;
mod rdma;
mod scene;

use scene::{AGENTS, NAME, PORT, SCRIPT, Scene, WATCHDOG, ip};
use sovia_tests::{
    FarNic, FarPair, Hosts, Key, LOSSY, Outcome, Scenario, TempDir, accelerated, until,
};
use std::net::TcpStream;

/// Runs a scenario between two agents, once both ends have their VI.
fn run(pair: &FarPair, scenario: Scenario) {
    scenario.env("SOVIA_RULES", pair.rules()).env("SOVIA_TEST_UNTIL_MET", "1").run_accelerated();
}

/// Frames get lost, duplicated, reordered and corrupt.
fn over_udp(test: &str, scenario: Scenario) {
    if let Some(pair) = FarPair::start(test, LOSSY) {
        run(&pair, scenario);
    }
}

sovia_tests::carried_scenarios!(over_udp);

/// A firewall lets only TCP pass.
#[test]
fn where_udp_does_not_pass_frames_go_as_tcp() {
    let test = "where_udp_does_not_pass_frames_go_as_tcp";
    let Some(pair) = FarPair::start(test, &["--lose", "1000000"]) else { return };
    for case in ["waitall_waits_for_all", "writev_and_sendmsg_gather"] {
        run(&pair, Scenario::c("stream_calls", case));
    }
}

/// A firewall blocks one direction of UDP below connections, and then the other one. The end that receives nothing by
/// UDP, and the end whose frames do not arrive, continue in the agents' conversation.
#[test]
fn connections_go_on_where_udp_passes_in_one_direction_only() {
    let test = "connections_go_on_where_udp_passes_in_one_direction_only";
    let programs = ["redis-server", "redis-benchmark", "nft"];
    let Some(scene) = Scene::set(test, &programs) else { return };
    let agents = [0, 1].map(|host| scene.agent(test, host));
    let [Some(a), Some(b)] = &agents else { return };
    until("the agents do not meet", || {
        [a, b].iter().all(|it| it.said().contains("connected to the agent at"))
    });
    let mut load = scene.load();
    load.is_served("nothing is served");
    for host in [0, 1, 0] {
        scene.shut_udp(host);
        load.is_served("nothing is served any more");
        scene.open_udp(host);
        load.is_served("nothing is served again");
    }
    load.end([a, b]);
}

/// A program that reads nothing. Once the VI is full, the kernel decides.
#[test]
fn peer_that_takes_nothing_ends_a_connection_whose_program_asks_for_that() {
    let test = "peer_that_takes_nothing_ends_a_connection_whose_program_asks_for_that";
    let Some(pair) = FarPair::start(test, &[]) else { return };
    for case in ["a_user_timeout", "a_polled_user_timeout", "a_user_timeout_of_a_stopped_peer"] {
        run(&pair, Scenario::c("options", case));
    }
}

/// The path to another host is long, so it holds more bytes than a program writes at a time.
#[test]
fn writer_that_polls_may_be_far_ahead_of_its_reader() {
    let test = "writer_that_polls_may_be_far_ahead_of_its_reader";
    let Some(pair) = FarPair::start(test, &[]) else { return };
    run(&pair, Scenario::c("nonblocking", "a_polled_writer_is_far_ahead"));
}

#[test]
fn redis_is_served_to_another_host() {
    let test = "redis_is_served_to_another_host";
    let Some(scene) = Scene::set(test, &["redis-server", "redis-benchmark"]) else { return };
    let (Some(_a), Some(_b)) = (scene.agent(test, 0), scene.agent(test, 1)) else { return };
    let (address, server) = (Hosts::ADDRESSES[1], scene.redis());
    let benchmark = ["redis-benchmark", "-h", address, "-p", PORT, "-n", "60000", "-c", "50", "-q"];
    let outcome = scene.start(0, &[&benchmark[..], &["-t", "set,get"]].concat()).finish(WATCHDOG);
    server.signal(libc::SIGTERM);
    let served = server.finish(WATCHDOG);
    assert!(outcome.success() && outcome.stdout.contains("GET"), "{outcome:?}");
    assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends >= 50), "{}", outcome.stderr);
    assert!(served.success() && accelerated(&served.stderr).is_some_and(|ends| ends >= 50));
}

/// Long frames no longer pass after the agents have agreed on their length.
#[test]
fn path_that_becomes_narrower_loses_nothing() {
    let test = "path_that_becomes_narrower_loses_nothing";
    let Some(scene) = Scene::set(test, &["redis-server", "redis-benchmark"]) else { return };
    let agents = [0, 1].map(|host| scene.agent(test, host));
    let [Some(a), Some(b)] = &agents else { return };
    until("the agents do not meet", || {
        [a, b].iter().all(|it| it.said().contains("connected to the agent at"))
    });
    for host in [0, 1] {
        ip(&format!("-n {} link set way mtu 1000", scene.hosts.name(host)));
    }
    let (address, server) = (Hosts::ADDRESSES[1], scene.redis());
    let benchmark = ["redis-benchmark", "-h", address, "-p", PORT, "-n", "2000", "-c", "4", "-q"];
    let benchmark = [&benchmark[..], &["-d", "20000", "-t", "set,get"]].concat();
    let outcome = scene.start(0, &benchmark).finish(WATCHDOG);
    server.signal(libc::SIGTERM);
    let served = server.finish(WATCHDOG);
    assert!(outcome.success() && outcome.stdout.contains("GET"), "{outcome:?}");
    assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends >= 4), "{}", outcome.stderr);
    assert!(served.success());
}

/// Neither the programs nor the other agent notice the restart.
#[test]
fn agents_that_are_started_again_go_on() {
    let test = "agents_that_are_started_again_go_on";
    let Some(scene) = Scene::set(test, &[]) else { return };
    let mut agents = [0, 1].map(|host| scene.agent(test, host));
    if agents.iter().any(Option::is_none) {
        return;
    }
    for again in [0, 1] {
        let ends = scene.converse("1", &["once"]);
        assert_eq!(ends[1].stdout, "accelerated\nok\n", "{ends:#?}");
        // Its name and its port are free again when it has ended.
        drop(agents[again].take());
        agents[again] = scene.agent(test, again);
    }
    let ends = scene.converse("8", &["many"]);
    assert_eq!(ends[1].stdout, "accelerated\n".repeat(8) + "ok\n", "{ends:#?}");
}

#[test]
fn without_the_other_hosts_agent_a_connection_stays_on_tcp() {
    let test = "without_the_other_hosts_agent_a_connection_stays_on_tcp";
    let Some(scene) = Scene::set(test, &[]) else { return };
    let Some(_agent) = scene.agent(test, 0) else { return };
    let ends = scene.converse("1", &["on_tcp"]);
    assert_eq!(ends[1].stdout, "tcp\nok\n", "{ends:#?}");
}

#[test]
fn agent_of_another_key_is_not_believed() {
    let test = "agent_of_another_key_is_not_believed";
    let Some(scene) = Scene::set(test, &[]) else { return };
    let stranger = Key::new(&scene.folder, "stranger");
    let Some(first) = scene.agent(test, 0) else { return };
    let impostor =
        Scene { hosts: scene.hosts, folder: scene.folder, keys: [scene.keys[0].clone(), stranger] };
    let Some(second) = impostor.agent(test, 1) else { return };
    let ends = impostor.converse("1", &["on_tcp"]);
    assert_eq!(ends[1].stdout, "tcp\nok\n", "{ends:#?}");
    // Their keys decide which of the two connects.
    let why =
        ["which no --peer of this agent has", "its key differs from", "closed the connection"];
    until("neither says why", || {
        [&first, &second].iter().any(|agent| why.iter().any(|why| agent.said().contains(why)))
    });
    assert!(
        !first.said().contains("connected to the agent at")
            && !second.said().contains("connected to the agent at")
    );
}

/// An agent may send only for the addresses that the other agent's options allow.
#[test]
fn agent_does_not_speak_for_other_networks() {
    let test = "agent_does_not_speak_for_other_networks";
    let Some(scene) = Scene::set(test, &[]) else { return };
    let peer = format!("{}@{}", scene.keys[1].public, Scene::place(1));
    let elsewhere = ["--peer-network", "192.0.2.0/24"];
    let (Some(_a), Some(_b)) = (scene.agent_with(test, 0, &peer, &elsewhere), scene.agent(test, 1))
    else {
        return;
    };
    let ends = scene.converse("1", &["on_tcp"]);
    assert_eq!(ends[1].stdout, "tcp\nok\n", "{ends:#?}");
}

/// Two connections in different networks have the same addresses. Agents that took the connector of one and the
/// acceptor of the other for the two ends of one connection would mix their bytes.
#[test]
fn ends_of_two_connections_with_the_same_addresses_are_told_apart() {
    let test = "ends_of_two_connections_with_the_same_addresses_are_told_apart";
    let Some(scene) = Scene::set(test, &[]) else { return };
    let Some(others) = Hosts::new() else { return };
    // The agents are on the first host of one network and on the second host of the other. A separate link joins
    // these hosts.
    let names = [scene.hosts.name(0), others.name(1)];
    let wires = ["10.91.8.2", "10.91.8.3"];
    ip(&format!("link add wire netns {} type veth peer name wire netns {}", names[0], names[1]));
    for (name, address) in names.iter().zip(wires) {
        ip(&format!("-n {name} link set wire up"));
        ip(&format!("-n {name} addr add {address}/24 dev wire"));
    }
    let prefixes = [scene.hosts.prefix(0), others.prefix(1)];
    let places = wires.map(|address| format!("{address}:{AGENTS}"));
    let start = |own: usize| {
        let peer = format!("{}@{}", scene.keys[1 - own].public, places[1 - own]);
        let at = (places[own].as_str(), &scene.keys[own]);
        let options = ["--peer-network", "10.91.7.0/24"];
        FarNic::start(&scene.folder, &prefixes[own], NAME, at, &peer, &options)
    };
    let agents = match (start(0), start(1)) {
        (Ok(a), Ok(b)) => [a, b],
        (Err(said), _) | (_, Err(said)) => return FarNic::cannot(test, &said),
    };
    until("the agents do not meet", || {
        agents.iter().all(|it| it.said().contains("connected to the agent at"))
    });
    let others = Scene { hosts: others, folder: TempDir::new(), keys: scene.keys.clone() };
    let address = Hosts::ADDRESSES[1];
    let answers = ["python3", SCRIPT, "answer", address, PORT, "1"];
    let asks = ["python3", SCRIPT, "ask", "on_tcp", address, PORT, "33333"];
    let all =
        [&scene, &others].map(|network| [network.start(1, &answers), network.start(0, &asks)]);
    for ends in all {
        let ends = ends.map(|end| end.finish(WATCHDOG));
        assert!(ends.iter().all(Outcome::success), "{ends:#?}");
        assert_eq!(ends[1].stdout, "tcp\nok\n", "{ends:#?}");
    }
}

/// A firewall that loses its state, an address that moves, or a link that is down for a while. The agents' own
/// connection ends, and the connections that they carry continue in the next one.
#[test]
fn connections_outlive_the_agents_conversation() {
    let test = "connections_outlive_the_agents_conversation";
    let Some(scene) = Scene::set(test, &["redis-server", "redis-benchmark", "ss"]) else { return };
    let agents = [0, 1].map(|host| scene.agent(test, host));
    let [Some(a), Some(b)] = &agents else { return };
    let met = |times: usize| [a, b].iter().all(|agent| agent.meetings() >= times);
    until("the agents do not meet", || met(1));
    let mut load = scene.load();
    load.is_served("nothing is served");
    for cut in 1..=4 {
        let down = cut % 2 == 0;
        if down {
            // The load of the other host connects meanwhile.
            scene.way(1, "down");
        }
        scene.end_conversation();
        if down {
            scene.way(1, "up");
        }
        until("the agents do not meet again", || met(1 + cut));
        load.is_served("nothing is served any more");
    }
    load.end([a, b]);
}

/// A program's TCP breaks while its host is cut off (SO_KEEPALIVE). The other program's TCP does not notice. The
/// agents may have noticed the outage, or not.
#[test]
fn end_during_an_outage_of_the_agents_is_reported_afterwards() {
    let test = "end_during_an_outage_of_the_agents_is_reported_afterwards";
    for have_found_out in [true, false] {
        let Some(scene) = Scene::set(test, &["ss"]) else { return };
        let (Some(_a), Some(_b)) = (scene.agent(test, 0), scene.agent(test, 1)) else { return };
        let address = Hosts::ADDRESSES[1];
        let answers = scene.start(1, &["python3", SCRIPT, "answer", address, PORT, "1"]);
        let asks = scene.start(0, &["python3", SCRIPT, "ask", "kept_alive", address, PORT]);
        until("it is not accelerated", || asks.stdout_so_far().contains("accelerated\n"));
        scene.is_acknowledged();
        scene.way(0, "down");
        if have_found_out {
            scene.end_conversation();
        }
        let asked = asks.finish(WATCHDOG);
        let end = "over: ETIMEDOUT\nafter it: b'' 0\nok\n";
        assert!(asked.success() && asked.stdout.ends_with(end), "{asked:?}");
        assert!(!asked.stderr.contains("corrupt"), "{asked:?}");
        scene.way(0, "up");
        let answered = answers.finish(WATCHDOG);
        assert!(answered.success() && answered.stdout == "ok\n", "{answered:?}");
    }
}

/// TCP_USER_TIMEOUT limits the time until sent bytes are acknowledged.
#[test]
fn what_is_not_acknowledged_in_time_ends_a_connection_whose_program_asks_for_that() {
    let test = "what_is_not_acknowledged_in_time_ends_a_connection_whose_program_asks_for_that";
    let Some(scene) = Scene::set(test, &[]) else { return };
    let (Some(_a), Some(_b)) = (scene.agent(test, 0), scene.agent(test, 1)) else { return };
    let (address, folder) = (Hosts::ADDRESSES[1], scene.folder.path());
    let answers = scene.start(1, &["python3", SCRIPT, "answer", address, PORT, "1"]);
    let asks = ["ask", "impatient", address, PORT, "", folder.to_str().expect("a plain name")];
    let asks = scene.start(0, &[&["python3", SCRIPT], &asks[..]].concat());
    let says = |what: &str| until(what, || asks.stdout_so_far().contains(what));
    let tell = |what: &str| {
        std::fs::write(folder.join(what), "").expect("a file");
    };
    says("accelerated\n");
    scene.way(0, "down");
    tell("down");
    says("waited\n");
    scene.way(0, "up");
    tell("up");
    says("went on\n");
    scene.way(0, "down");
    tell("down_again");
    let asked = asks.finish(WATCHDOG);
    let end = "went on\nover: ETIMEDOUT\nafter it: b'' 0\nok\n";
    assert!(asked.success() && asked.stdout.ends_with(end), "{asked:?}");
    assert!(asked.stderr.contains("did not answer for too long"), "{asked:?}");
    scene.way(0, "up");
    let answered = answers.finish(WATCHDOG);
    assert!(answered.success() && answered.stdout == "ok\n", "{answered:?}");
}

/// Anyone who can reach an agent's ports: neither frames nor conversations of other users affect the
/// agent.
#[test]
fn unknown_senders_at_an_agents_ports_change_nothing() {
    let test = "unknown_senders_at_an_agents_ports_change_nothing";
    let Some(pair) = FarPair::start(test, &[]) else { return };
    let said = |nic: &FarNic| nic.said().contains("connected to the agent at");
    until("the agents do not meet", || pair.nics().iter().all(said));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let ports: Vec<String> = pair.nics().iter().map(|nic| nic.listens_at().to_owned()).collect();
    let mut guests = Vec::new();
    let stranger = || {
        for (n, port) in (0u32..2000).zip(ports.iter().cycle()) {
            let frame: Vec<u8> = (0..n % 1400).map(|i| (i * n) as u8).collect();
            let _ = socket.send_to(&frame, port);
        }
    };
    for port in ports.iter().cycle().take(200) {
        let mut guest = TcpStream::connect(port).expect("it listens");
        let _ = std::io::Write::write_all(&mut guest, &[0, 96, 7, 7, 7]);
        guests.push(guest);
    }
    stranger();
    run(&pair, Scenario::c("stream_calls", "waitall_waits_for_all"));
    assert!(
        pair.nics().iter().all(|nic| nic.said().matches("connected to the agent at").count() == 1)
    );
}
