//! Compares judgements of packet filters with the kernel's decisions, in a network namespace of the test's own. Seeds
//! give the rule sets.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sovia_agent::filters::look;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Number of rule sets tried.
const CASES: u32 = 120;

/// Rules that switch on connection tracking, so that the test's connections have a state from the beginning.
const TRACKING: &str = "table inet tracking {
    chain every { type filter hook prerouting priority -300; ct state new accept; }
}";

/// Runs a tool with text as its input.
fn run(tool: &str, args: &[&str], text: &str) -> std::io::Result<bool> {
    let mut child =
        Command::new(tool).args(args).stdin(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    Ok(child.wait()?.success())
}

/// Moves the thread to a new network namespace with the device `lo`. Returns the reason if this fails.
fn enter() -> Option<String> {
    if let Err(error) = sovia_sys::netns::fresh() {
        return Some(format!("no network namespace can be made: {error}"));
    }
    for (tool, args, text) in
        [("ip", &["link", "set", "lo", "up"][..], ""), ("nft", &["-f", "-"], TRACKING)]
    {
        match run(tool, args, text) {
            Ok(true) => {}
            Ok(false) => return Some(format!("{tool} cannot change a network namespace")),
            Err(error) => return Some(format!("{tool} cannot be started: {error}")),
        }
    }
    None
}

struct Seed(ChaCha8Rng);

impl Seed {
    fn below(&mut self, n: usize) -> usize {
        self.0.next_u32() as usize % n
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Returns a random condition, often on one of these ports.
    fn condition(&mut self, ports: &[u16]) -> String {
        let port = ports[self.below(ports.len())];
        let side = self.one(&["tcp dport", "tcp sport", "th dport"]);
        let of_th = if side.starts_with("th") { "meta l4proto tcp " } else { "" };
        let by_port = match self.below(6) {
            0 => format!("{port}"),
            1 => format!("!= {port}"),
            2 => format!("{{ 7, {port}, 60000-60010 }}"),
            3 => format!(">= {port}"),
            4 => format!("< {port}"),
            _ => format!("{}-{}", port - 1, port.saturating_add(1)),
        };
        if self.below(2) == 0 {
            return format!("{of_th}{side} {by_port}");
        }
        self.one(&[
            "iif lo",
            "iifname \"eth0\"",
            "iifname != \"lo\"",
            "oifname \"lo\"",
            "oif lo",
            "ct state established",
            "ct state new",
            "ct state { established, related }",
            "ct state != established",
            "ct state new,established",
            "ip saddr 127.0.0.1",
            "ip daddr 127.0.0.2",
            "ip protocol tcp",
            "meta l4proto tcp",
            "meta l4proto != tcp",
            "meta nfproto ipv4",
            "udp dport 9",
            "udp dport != 9",
            "tcp flags syn",
            "tcp flags ack",
            "limit rate 100000/second",
            "meta mark 0",
            "meta mark 7",
            "meta length > 5",
            "tcp dport @web",
            "tcp dport @seen",
            "ct state { new, * }",
            "meta l4proto { udp, * }",
            "tcp dport { 8000 limit rate 1/day burst 1 packets }",
            "counter",
        ])
        .into()
    }

    fn verdict(&mut self, hook: &str, chains: &[&str]) -> String {
        let last = if matches!(hook, "input" | "output") { "reject" } else { "drop" };
        match self.below(if chains.is_empty() { 6 } else { 9 }) {
            0 | 1 => "accept".into(),
            2 => "drop".into(),
            3 => last.into(),
            4 => self
                .one(&[
                    "continue",
                    "counter",
                    "return",
                    "meta mark set 7",
                    "meta mark set tcp dport map { 8000 : 0x7 } accept",
                    "meta pkttype set other",
                    "ct mark set 7",
                    "ct zone set 7",
                    "add @seen { tcp dport }",
                    "log",
                ])
                .into(),
            5 => self
                .one(&[
                    "ct state vmap { established : accept, new : drop }",
                    "ct state vmap { invalid : drop, new : accept }",
                    "tcp dport vmap { 7 : drop, 8000-8001 : accept }",
                    "tcp sport vmap { 8000 : drop }",
                    "ct state vmap { new : accept, * : drop }",
                    "meta l4proto vmap { * : accept, udp : drop }",
                ])
                .into(),
            n => format!("{} {}", if n == 8 { "goto" } else { "jump" }, self.one(chains)),
        }
    }

    fn rules(&mut self, hook: &str, ports: &[u16], chains: &[&str]) -> String {
        let mut text = String::new();
        for _ in 0..self.below(5) {
            for _ in 0..self.below(3) {
                let _ = write!(text, "{} ", self.condition(ports));
            }
            let _ = writeln!(text, "{}", self.verdict(hook, chains));
        }
        text
    }

    /// Returns a random rule set: one or two base chains, and two chains that they may call.
    fn rule_set(&mut self, ports: &[u16]) -> String {
        let mut text = String::from(
            "table inet t {\nset web { type inet_service; elements = { 8000, 443 } }\n\
             set seen { type inet_service; flags dynamic; size 64; }\n",
        );
        // Rules of these chains must be legal in every hook.
        let called = [("b", &[][..]), ("a", &["b"])];
        for (name, chains) in called {
            let _ = writeln!(text, "chain {name} {{\n{}}}", self.rules("any", ports, chains));
        }
        for base in 0..1 + self.below(2) {
            let hook = self.one(&["input", "output", "prerouting", "postrouting"]);
            let policy = self.one(&["accept", "drop"]);
            let priority = self.one(&["-300", "-150", "0", "100"]);
            let rules = self.rules(hook, ports, &["a", "b"]);
            let _ = writeln!(
                text,
                "chain base{base} {{ type filter hook {hook} priority {priority}; policy {policy};\n{rules}}}"
            );
        }
        text + "}\n"
    }
}

/// Returns true if a connection passes bytes in both directions.
fn passes(ends: &mut [TcpStream; 2]) -> bool {
    let mut byte = [0];
    for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
        let _ = ends[from].write_all(&[1]);
        match ends[to].read_exact(&mut byte) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return false;
            }
            // A rule has reset the connection.
            Err(_) => return false,
        }
    }
    true
}

#[test]
fn packets_that_are_judged_to_pass_do_pass() {
    if let Some(reason) = enter() {
        println!("SKIPPED: {reason}");
        return;
    }
    assert!(look().stopped.is_empty(), "{:?}", look());
    let listener = TcpListener::bind(("127.0.0.1", 8000)).expect("an empty network namespace");
    let (mut tried, mut passed, mut certain) = (0, 0, 0);
    for seed in 0.. {
        if tried == CASES {
            break;
        }
        let client = TcpStream::connect(("127.0.0.1", 8000)).expect("no rule stops it");
        let (server, _) = listener.accept().expect("it has connected");
        let mut ends = [client, server];
        for end in &ends {
            end.set_read_timeout(Some(Duration::from_millis(60))).expect("not zero");
        }
        // Both ends have received an answer. So the kernel considers the connection established.
        assert!(passes(&mut ends));
        let port = ends[0].local_addr().expect("it is connected").port();
        let mut rng = Seed(ChaCha8Rng::seed_from_u64(seed));
        let rules = rng.rule_set(&[8000, 9000, port, 443]);
        // nft refuses a rule set with conditions that exclude each other.
        if !run("nft", &["-f", "-"], &rules).expect("nft is here") {
            continue;
        }
        tried += 1;
        let judgement = look();
        let is_certain = !judgement.stopped.concern(port, 8000);
        let has_passed = passes(&mut ends);
        assert!(has_passed || !is_certain, "seed {seed}: {judgement:?} for port {port}\n{rules}");
        passed += u32::from(has_passed);
        certain += u32::from(is_certain);
        assert!(run("nft", &["delete", "table", "inet", "t"], "").expect("nft is here"));
    }
    println!("{passed} of {CASES} passed, {certain} certainly");
    assert!(certain * 2 > passed, "{certain} of {passed}");
}
