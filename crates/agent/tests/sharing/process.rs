//! Processes of a test: this program, run again.

use crate::common::serve;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use via::error::ConnectError;
use via::{NetAddress, Nic, Vi};
use via_conformance::{Context, End};
use via_eth::{Config, EthNic, Place};

const PART: &str = "SOVIA_TEST_PART";

/// Returns true if this process plays a part in a test.
pub(crate) fn is_one() -> bool {
    std::env::var_os(PART).is_some()
}

/// Plays this process's part.
pub(crate) fn play() {
    let part = std::env::var(PART).expect("it is a test's");
    let words: Vec<&str> = part.split(' ').collect();
    match words[..] {
        ["agent", name, place] => {
            let served =
                serve(name, place, vec![sovia_sys::call::geteuid()], &|| println!("ready"));
            panic!("{served}");
        }
        // Accepts a connection, or leaves its request open.
        [part, agent] => {
            let nic = at(agent);
            let cx = Context { nic: &nic, server: nic.address(b"server") };
            let end = End::new(&cx);
            println!("ready");
            let request = nic.connect_wait(&cx.server, None).expect("a request");
            if part == "accepts" {
                via::Connection::accept(request, &end.vi).expect("accepted");
                println!("connected");
                stand_still();
            }
            println!("asked");
            stand_still();
        }
        [_, agent, host] => {
            let nic = at(agent);
            let host: Vec<u8> = host.split(',').map(|byte| byte.parse().expect("a byte")).collect();
            let cx = Context { nic: &nic, server: NetAddress::new(&host, b"server") };
            let end = End::new(&cx);
            let asks = || end.vi.connect_request(&cx.own(1), &cx.server, None);
            while asks() == Err(ConnectError::NoMatch) {}
            println!("connected");
            stand_still();
        }
        _ => panic!("no such part: {part}"),
    }
}

fn stand_still() -> ! {
    loop {
        std::thread::park();
    }
}

/// Opens a NIC at an agent.
pub(crate) fn at(agent: &str) -> EthNic {
    let opened = Config::new(Place::Agent(agent.to_owned())).open();
    opened.expect("the agent serves this user")
}

/// A process that plays a part. Dropping the value kills the process.
pub(crate) struct Part {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Part {
    pub(crate) fn start(part: &str) -> Part {
        let own = std::env::current_exe().expect("a running program has a path");
        let child = Command::new(own).env(PART, part).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Part { child, lines }
    }

    /// Waits until the process prints this line.
    pub(crate) fn says(&mut self, expected: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it can be heard");
        assert_eq!(line.trim(), expected);
    }

    /// Stops the process. Returns when it has stopped.
    pub(crate) fn stop(&self) {
        self.signal("STOP");
        let status = format!("/proc/{}/status", self.child.id());
        let stands =
            || std::fs::read_to_string(&status).expect("it is there").contains("State:\tT");
        while !stands() {
            std::thread::yield_now();
        }
    }

    /// Lets a stopped process continue.
    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let (own, signal) = (self.child.id().to_string(), format!("-{signal}"));
        let done = Command::new("kill").args([&signal, &own]).status().expect("kill starts");
        assert!(done.success());
    }

    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.end();
    }
}
