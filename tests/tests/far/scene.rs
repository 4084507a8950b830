//! Two hosts with an agent each.

use sovia_tests::{
    FarNic, Hosts, Key, Launch, Outcome, Running, Stack, TempDir, accelerated, skipped, until,
};
use std::time::Duration;

pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);
pub(crate) const PORT: &str = "7541";
/// Port on which agents receive from each other.
pub(crate) const AGENTS: u16 = 7471;
/// Name of each host's agent.
pub(crate) const NAME: &str = "far";
pub(crate) const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/apps-py/neighbours.py");

/// Two network namespaces, with an agent in each.
pub(crate) struct Scene {
    pub(crate) hosts: Hosts,
    pub(crate) folder: TempDir,
    pub(crate) keys: [Key; 2],
}

impl Scene {
    pub(crate) fn set(test: &str, programs: &[&str]) -> Option<Scene> {
        if skipped(test, &[&["ip", "python3"], programs].concat()) {
            return None;
        }
        let Some(hosts) = Hosts::new() else {
            println!("SKIPPED: {test}: no network namespace can be made");
            return None;
        };
        let folder = TempDir::new();
        let keys = ["a", "b"].map(|end| Key::new(&folder, end));
        Some(Scene { hosts, folder, keys })
    }

    pub(crate) fn place(host: usize) -> String {
        format!("{}:{AGENTS}", Hosts::ADDRESSES[host])
    }

    /// Starts the agent of a host, which expects the other one's key. Returns `None` if there can
    /// be none here.
    pub(crate) fn agent(&self, test: &str, host: usize) -> Option<FarNic> {
        let peer = format!("{}@{}", self.keys[1 - host].public, Scene::place(1 - host));
        self.agent_with(test, host, &peer, &[])
    }

    pub(crate) fn agent_with(
        &self,
        test: &str,
        host: usize,
        peer: &str,
        options: &[&str],
    ) -> Option<FarNic> {
        let (place, prefix) = (Scene::place(host), self.hosts.prefix(host));
        let at = (place.as_str(), &self.keys[host]);
        FarNic::start(&self.folder, &prefix, NAME, at, peer, options)
            .inspect_err(|said| FarNic::cannot(test, said))
            .ok()
    }

    /// Takes a host's end of the link `down` or `up`. While the link is down, the host's programs cannot
    /// connect.
    pub(crate) fn way(&self, host: usize, state: &str) {
        ip(&format!("-n {} link set way {state}", self.hosts.name(host)));
    }

    /// Ends the agents' conversation, like a firewall that loses its state.
    pub(crate) fn end_conversation(&self) {
        self.end_connections(&format!("sport = :{AGENTS} or dport = :{AGENTS}"));
    }

    /// Ends all TCP connections of the first host except those of these ports, like the loss of a NIC.
    pub(crate) fn end_connections_but(&self, ports: &[u16]) {
        let but = ports.iter().map(|port| format!("sport != :{port} and dport != :{port}"));
        self.end_connections(&but.collect::<Vec<_>>().join(" and "));
    }

    fn end_connections(&self, filter: &str) {
        let name = self.hosts.name(0);
        ip(&format!("netns exec {name} ss -Kt state established ( {filter} )"));
    }

    /// Makes a firewall drop all UDP that a host sends.
    pub(crate) fn shut_udp(&self, host: usize) {
        for rule in [
            "add table inet shut",
            "add chain inet shut out { type filter hook output priority 0 ; }",
            "add rule inet shut out meta l4proto udp counter drop",
        ] {
            ip(&format!("netns exec {} nft {rule}", self.hosts.name(host)));
        }
    }

    /// Repeats an action until the NICs of both hosts carry every frame meanwhile. An agent that gets no processor
    /// for long tries UDP for a moment, and the firewalls count its packets.
    pub(crate) fn is_carried_by_nics(&self, mut act: impl FnMut()) {
        until("frames are tried by UDP each time", || {
            let before = self.dropped();
            act();
            self.dropped() == before
        });
    }

    /// Packets that each host's firewall has dropped.
    fn dropped(&self) -> [String; 2] {
        [0, 1].map(|host| {
            let name = self.hosts.name(host);
            let listed = ip(&format!("netns exec {name} nft list table inet shut"));
            let count = listed.split("counter packets ").nth(1).and_then(|it| it.split(' ').next());
            count.unwrap_or_else(|| panic!("{listed}")).to_owned()
        })
    }

    /// Lets UDP pass again.
    pub(crate) fn open_udp(&self, host: usize) {
        ip(&format!("netns exec {} nft delete table inet shut", self.hosts.name(host)));
    }

    /// Runs redis-benchmark again and again.
    pub(crate) fn load(&self) -> Load {
        let server = self.redis();
        let benchmark =
            ["redis-benchmark", "-h", Hosts::ADDRESSES[1], "-p", PORT, "-l", "-n", "3000"];
        let size = ["-c", "8", "-d", "3000", "-t", "set,get", "-q"];
        Load { server, benchmark: self.start(0, &[&benchmark[..], &size].concat()) }
    }

    /// Starts a program on a host, with a rule that the agent carries its connections.
    pub(crate) fn start(&self, host: usize, words: &[&str]) -> Running {
        let prefix = self.hosts.prefix(host);
        let prefix: Vec<&str> = prefix.split_whitespace().collect();
        Launch::new(Stack::Sovia, words)
            .by(&prefix)
            .verbose(true)
            .env("SOVIA_RULES", &format!("nic:name={NAME},messages=1"))
            .current_dir(self.folder.path())
            .start()
    }

    /// Starts nginx on the second host, with a file of these bytes.
    pub(crate) fn nginx(&self, bytes: &[u8]) -> Running {
        let at = self.folder.path().display().to_string();
        let address = Hosts::ADDRESSES[1];
        let conf = format!(
            "daemon off; worker_processes 2; user root; pid {at}/pid; error_log {at}/error.log;
             events {{ worker_connections 256; }}
             http {{
               access_log off; sendfile on; keepalive_requests 100000;
               client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
               fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
               server {{ listen {address}:{PORT}; root {at}; location /hello {{ return 200 'hello'; }} }}
             }}"
        );
        std::fs::write(self.folder.path().join("served"), bytes).expect("a file to serve");
        std::fs::write(self.folder.path().join("nginx.conf"), conf).expect("a configuration");
        let (conf, log) = (format!("{at}/nginx.conf"), format!("{at}/error.log"));
        let server = self.start(1, &["nginx", "-p", &at, "-c", &conf, "-e", &log]);
        self.listens("the server does not listen");
        server
    }

    /// Waits until a program of the second host listens.
    pub(crate) fn listens(&self, or: &str) {
        let name = self.hosts.name(1);
        let filter = format!("netns exec {name} ss -Hltn sport = :{PORT}");
        until(or, || !ip(&filter).is_empty());
    }

    /// Waits until TCP has acknowledged all bytes that programs of the first host have sent to the second one. Until
    /// then the kernel sends no keep-alive probe.
    pub(crate) fn is_acknowledged(&self) {
        let filter = format!("netns exec {} ss -Htn dport = :{PORT}", self.hosts.name(0));
        until("bytes stay unacknowledged", || {
            let listed = ip(&filter);
            !listed.is_empty()
                && listed.lines().all(|line| line.split_whitespace().nth(2) == Some("0"))
        });
    }

    /// Starts Redis on the second host.
    pub(crate) fn redis(&self) -> Running {
        let address = Hosts::ADDRESSES[1];
        let server = ["redis-server", "--port", PORT, "--bind", address, "--protected-mode", "no"];
        let server = self.start(1, &[&server[..], &["--save", ""]].concat());
        until("the server does not listen", || server.stdout_so_far().contains("Ready to accept"));
        server
    }

    /// Starts a client on the first host: a case of `apps-py/neighbours.py`.
    pub(crate) fn converse(&self, connections: &str, case: &[&str]) -> [Outcome; 2] {
        let address = Hosts::ADDRESSES[1];
        let answers = ["python3", SCRIPT, "answer", address, PORT, connections];
        let asks = [&["python3", SCRIPT, "ask", case[0], address, PORT], &case[1..]].concat();
        let ends = [self.start(1, &answers), self.start(0, &asks)];
        let ends = ends.map(|end| end.finish(WATCHDOG));
        assert!(ends.iter().all(|end| end.success() && end.stdout.ends_with("ok\n")), "{ends:#?}");
        ends
    }
}

/// Redis on the second host, and eight connections of the first host that send requests until they
/// are ended.
pub(crate) struct Load {
    server: Running,
    benchmark: Running,
}

impl Load {
    /// Waits until more requests were served; `or` is the error if none were.
    pub(crate) fn is_served(&mut self, or: &str) {
        let benchmark = &mut self.benchmark;
        let served = |of: &Running| of.stdout_so_far().matches("requests per second").count();
        let before = served(benchmark);
        until(or, || {
            assert!(!benchmark.has_ended(), "{or}: {}", benchmark.stderr_so_far());
            served(benchmark) >= before + 2
        });
    }

    /// Ends the load. No request may have failed. Agents must have carried all connections, and given
    /// up none.
    pub(crate) fn end(self, agents: [&FarNic; 2]) {
        self.benchmark.signal(libc::SIGINT);
        let outcome = self.benchmark.finish(WATCHDOG);
        self.server.signal(libc::SIGTERM);
        let served = self.server.finish(WATCHDOG);
        assert!(
            !outcome.stderr.contains("Error") && !outcome.stdout.contains("Error"),
            "{outcome:?}"
        );
        for agent in agents {
            assert!(!agent.said().contains("given up"), "{}", agent.said());
        }
        assert!(served.success() && accelerated(&served.stderr).is_some_and(|ends| ends >= 8));
    }
}

/// Runs `ip` with these words, and returns its output.
pub(crate) fn ip(words: &str) -> String {
    let done = std::process::Command::new("ip").args(words.split_whitespace()).output();
    let done = done.expect("ip starts");
    assert!(done.status.success(), "{words}: {done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}
