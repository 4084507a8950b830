//! Several hosts on a switch, each with an agent that knows all others. For root, whose agent the kernel shows sequence numbers.

use sovia_tests::{
    FarNic, Hosts, Key, Launch, Outcome, Running, Stack, TempDir, accelerated, skipped,
};
use std::time::{Duration, Instant};

const WATCHDOG: Duration = Duration::from_secs(120);
const PORT: &str = "7542";
/// Where agents hear each other.
const AGENTS: u16 = 7471;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/apps-py/neighbours.py");

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WATCHDOG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Hosts on a switch.
struct Cluster {
    hosts: Hosts,
    folder: TempDir,
    keys: Vec<Key>,
}

impl Cluster {
    fn set(test: &str, count: usize, programs: &[&str]) -> Option<Cluster> {
        if skipped(test, &[&["ip", "python3"], programs].concat()) {
            return None;
        }
        let Some(hosts) = Hosts::on_a_switch(count) else {
            println!("SKIPPED: {test}: no network namespace can be made");
            return None;
        };
        let folder = TempDir::new();
        let keys: Vec<Key> = (0..count).map(|n| Key::new(&folder, &format!("key{n}"))).collect();
        // Each knows all others, by a file.
        for own in 0..count {
            let others = (0..count).filter(|&other| other != own);
            let line = |n: usize| format!("{} {} # host {n}\n", keys[n].public, place(n));
            let lines: String = others.map(line).collect();
            std::fs::write(folder.path().join(format!("peers{own}")), lines).expect("a file");
        }
        Some(Cluster { hosts, folder, keys })
    }

    /// The agent of a host; `None` if there can be none here.
    fn agent(&self, test: &str, host: usize) -> Option<FarNic> {
        let (place, prefix) = (place(host), self.hosts.prefix(host));
        let file = self.folder.path().join(format!("peers{host}"));
        let options = ["--peers", file.to_str().expect("a plain name")];
        let at = (place.as_str(), &self.keys[host]);
        FarNic::start_with(&self.folder, &prefix, &name(host), at, &options)
            .inspect_err(|said| {
                assert!(said.contains("needs CAP_BPF"), "{said}");
                println!("SKIPPED: {test}: {}", said.trim());
            })
            .ok()
    }

    /// All agents, which have met each other.
    fn agents(&self, test: &str) -> Option<Vec<FarNic>> {
        let agents: Vec<FarNic> =
            (0..self.keys.len()).map_while(|host| self.agent(test, host)).collect();
        if agents.len() < self.keys.len() {
            return None;
        }
        until("the agents do not meet", || agents.iter().all(|it| met(it) >= agents.len() - 1));
        Some(agents)
    }

    fn start(&self, host: usize, words: &[&str]) -> Running {
        let prefix = self.hosts.prefix(host);
        let prefix: Vec<&str> = prefix.split_whitespace().collect();
        Launch::new(Stack::Sovia, words)
            .by(&prefix)
            .verbose(true)
            .env("SOVIA_RULES", &format!("nic:name={}", name(host)))
            .current_dir(self.folder.path())
            .start()
    }

    /// A Redis on the first host.
    fn redis(&self) -> Running {
        let server = ["redis-server", "--port", PORT, "--bind", Hosts::ADDRESSES[0]];
        let server = [&server[..], &["--protected-mode", "no", "--save", ""]].concat();
        let server = self.start(0, &server);
        until("the server does not listen", || server.stdout_so_far().contains("Ready to accept"));
        server
    }

    /// A program on a host that asks it, as `apps-py/neighbours.py` does.
    fn asks(&self, host: usize, case: &str) -> Running {
        let folder = self.folder.path().to_str().expect("a plain name");
        self.start(host, &["python3", SCRIPT, "ask", case, Hosts::ADDRESSES[0], PORT, "", folder])
    }

    /// Tells those that ask until they are told that it is enough.
    fn enough(&self) {
        std::fs::write(self.folder.path().join("enough"), "").expect("a file");
    }
}

fn place(host: usize) -> String {
    format!("{}:{AGENTS}", Hosts::ADDRESSES[host])
}

fn name(host: usize) -> String {
    format!("host{host}")
}

/// How often it has met another one.
fn met(agent: &FarNic) -> usize {
    agent.said().matches("is there\n").count()
}

fn is_accelerated(program: &Running) -> bool {
    program.stdout_so_far().contains("accelerated\n")
}

fn ends_well(outcome: &Outcome, stdout: &str) {
    assert!(outcome.success() && outcome.stdout == stdout, "{outcome:#?}");
}

#[test]
fn redis_serves_three_hosts_of_which_one_loses_its_agent_and_gets_another() {
    let test = "redis_serves_three_hosts_of_which_one_loses_its_agent_and_gets_another";
    let Some(cluster) = Cluster::set(test, 4, &["redis-server"]) else { return };
    let Some(mut agents) = cluster.agents(test) else { return };
    let server = cluster.redis();
    let stay = [1, 2].map(|host| cluster.asks(host, "redis_until_told"));
    let loses = cluster.asks(3, "redis_until_reset");
    until("not all are accelerated", || stay.iter().chain([&loses]).all(is_accelerated));
    let before = met(&agents[0]);
    drop(agents.pop());
    ends_well(&loses.finish(WATCHDOG), "accelerated\nreset\nok\n");
    agents.extend(cluster.agent(test, 3));
    until("the first host's agent does not meet the new one", || met(&agents[0]) > before);
    ends_well(&cluster.asks(3, "redis").finish(WATCHDOG), "ok\n");
    cluster.enough();
    for program in stay {
        ends_well(&program.finish(WATCHDOG), "accelerated\nstill\nok\n");
    }
    server.signal(libc::SIGTERM);
    let served = server.finish(WATCHDOG);
    assert!(served.success() && accelerated(&served.stderr).is_some_and(|ends| ends >= 4));
}

/// Its connections stand still with it, and go on with it.
#[test]
fn agent_that_stands_still_holds_up_no_other_host() {
    let test = "agent_that_stands_still_holds_up_no_other_host";
    let Some(cluster) = Cluster::set(test, 3, &["redis-server", "redis-benchmark"]) else { return };
    let Some(agents) = cluster.agents(test) else { return };
    let server = cluster.redis();
    let stands = cluster.asks(2, "redis_until_told");
    until("it is not accelerated", || is_accelerated(&stands));
    agents[2].signal(libc::SIGSTOP);
    let address = Hosts::ADDRESSES[0];
    let benchmark = ["redis-benchmark", "-h", address, "-p", PORT, "-n", "30000", "-c", "20", "-q"];
    let outcome = cluster.start(1, &[&benchmark[..], &["-t", "set,get"]].concat()).finish(WATCHDOG);
    assert!(outcome.success() && outcome.stdout.contains("GET"), "{outcome:?}");
    assert!(accelerated(&outcome.stderr).is_some_and(|ends| ends >= 20), "{}", outcome.stderr);
    cluster.enough();
    agents[2].signal(libc::SIGCONT);
    ends_well(&stands.finish(WATCHDOG), "accelerated\nstill\nok\n");
    server.signal(libc::SIGTERM);
    assert!(server.finish(WATCHDOG).success());
}

/// What an agent says that cannot start.
fn refused(folder: &TempDir, key: &Key, options: &[&str]) -> String {
    let started = FarNic::start_with(folder, "", "refused", ("127.0.0.1:7471", key), options);
    started.expect_err("it is refused")
}

#[test]
fn two_peers_that_claim_one_network_are_refused() {
    let folder = TempDir::new();
    let keys = ["own", "a", "b"].map(|name| Key::new(&folder, name));
    let [own, a, b] = &keys;
    let peers = [
        format!("{}@127.0.0.2:7471,10.0.0.0/8,10.1.0.0/16", a.public),
        format!("{}@127.0.0.3:7471,10.1.2.3/16", b.public),
    ];
    let said = refused(&folder, own, &["--peer", &peers[0], "--peer", &peers[1]]);
    assert!(said.contains("both speak for 10.1.0.0/16"), "{said}");
    let said = refused(
        &folder,
        own,
        &["--peer", &peers[0], "--peer", &peers[1], "--peer-network", "10.0.0.0/8"],
    );
    assert!(said.contains("--peer-network says of one agent alone"), "{said}");
}

#[test]
fn mistake_in_a_file_of_peers_is_named_with_its_line() {
    let folder = TempDir::new();
    let keys = ["own", "a"].map(|name| Key::new(&folder, name));
    let [own, a] = &keys;
    let file = folder.path().join("peers");
    let path = file.to_str().expect("a plain name");
    for (text, expected) in [
        (format!("# all\n{} 127.0.0.2\n", a.public), "line 2: `127.0.0.2` is no place"),
        (format!("{} 127.0.0.2:1 10/8\n", a.public), "line 1: `10/8` is no network"),
        (format!("\n\n{} 127.0.0.2:1\n", &a.public[1..]), "line 3: `"),
        (format!("{0} 127.0.0.2:1\n{0} 127.0.0.3:1\n", a.public), "line 2 have the same key"),
        (format!("{} 127.0.0.2:1\n", own.public), "line 1: this is the agent's own key"),
        ("# nobody\n".to_owned(), "there is no peer"),
    ] {
        std::fs::write(&file, text).expect("a file");
        let said = refused(&folder, own, &["--peers", path]);
        assert!(said.contains(expected), "expected {expected:?}: {said}");
    }
    let said = refused(&folder, own, &["--peers", "/nowhere/peers"]);
    assert!(said.contains("/nowhere/peers") && said.contains("No such file"), "{said}");
}
