//! Tests of `sovia agent --device`: a port that programs share.

use core::net::SocketAddr;
use sovia_port::agent::Agent;
use sovia_port::{Address, Error, Port};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};

fn agent(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sovia-tools"));
    command
        .arg("agent")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

/// Returns a value from an agent's `/proc/PID/status`.
fn status(of: &Running, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{}/status", of.0.id())).expect("it runs");
    let value = text.lines().find_map(|line| line.strip_prefix(key)).expect("such a line");
    value.trim_start_matches(':').trim().to_owned()
}

/// Starts an agent with a UDP port on the loopback, and waits until it is ready. Returns the agent and the port's
/// address.
fn sharing(name: &str) -> (Running, SocketAddr) {
    let mut child =
        Running(agent(&["--name", name, "--device", "udp:127.0.0.1:0"]).spawn().expect("it runs"));
    let mut line = String::new();
    let output = child.0.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("it says when it is ready");
    let said = line.strip_prefix(&format!("the port {name} is ready at udp:"));
    let address = said.and_then(|address| address.trim().parse().ok());
    (child, address.unwrap_or_else(|| panic!("{line}")))
}

fn signal(child: &Running, signal: &str) {
    let own = child.0.id().to_string();
    let done = Command::new("kill").args([signal, &own]).status().expect("kill starts");
    assert!(done.success());
}

/// Checks the counters that the agent prints on SIGUSR1 and at its end.
#[test]
fn agent_prints_counters_of_frames() {
    let name = name("counts");
    let (mut child, address) = sharing(&name);
    let lines = BufReader::new(child.0.stderr.take().expect("a pipe")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let mut told = || [lines.next(), lines.next()].map(Option::unwrap_or_default);
    let mut port = Agent::open(&name).expect("it serves this user");
    assert_ne!(address.port(), 0);
    port.slot().expect("room")[..8].copy_from_slice(b"nonsense");
    port.commit(8, &Address::Udp(address)).expect("a frame");
    port.flush().expect("the agent is there");
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    stranger.send_to(b"nonsense", address).expect("it is sent");
    // Repeats until both frames have arrived.
    loop {
        signal(&child, "-USR1");
        let [of_port, of_program] = told();
        if of_port.contains(" 1 received") && of_program.contains(" 1 malformed") {
            assert!(of_port.ends_with(" 1 without a known sender or receiver"), "{of_port}");
            break;
        }
        std::thread::yield_now();
    }
    drop(port);
    signal(&child, "-TERM");
    assert!(child.0.wait().expect("it ends").success());
    let [_, of_program] = told();
    assert!(of_program.contains(" 1 malformed"), "{of_program}");
}

#[test]
fn agent_shares_a_port_without_any_privilege() {
    let name = name("shares");
    let (child, _) = sharing(&name);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status(&child, set), "0000000000000000", "{set}");
    }
    assert_eq!(status(&child, "NoNewPrivs"), "1");
    assert!(!status(&child, "Uid").split_whitespace().any(|uid| uid == "0"));
    let mut port = Agent::open(&name).expect("it serves this user");
    assert_eq!(port.check(), Ok(()));
    drop(child);
    assert_eq!(port.check(), Err(Error::Gone));
    assert!(Agent::open(&name).is_err());
}

#[test]
fn device_that_cannot_be_shared_is_an_error() {
    let name = name("told");
    let told = |arguments: &[&str]| {
        let Output { status, stderr, .. } = agent(arguments).output().expect("it runs");
        assert!(!status.success());
        String::from_utf8_lossy(&stderr).into_owned()
    };
    let other = told(&["--name", &name, "--device", "agent:other"]);
    assert!(other.contains("cannot share agent:other"), "{other}");
    let nobody = ["--name", &name, "--device", "udp:127.0.0.1:0", "--serve", "no-such-user"];
    assert!(told(&nobody).contains("there is no user `no-such-user`"));
    // With so few descriptors, the agent cannot look up the user.
    let few = ["-c", "ulimit -n 4 && exec \"$0\" agent \"$@\"", env!("CARGO_BIN_EXE_sovia-tools")];
    let mut confined = Command::new("sh");
    confined.args(few).args(["--name", &name, "--device", "udp:127.0.0.1:0", "--serve", "nobody"]);
    let Output { status, stderr, .. } = confined.output().expect("it runs");
    let said = String::from_utf8_lossy(&stderr);
    assert!(!status.success() && said.contains("Too many open files"), "{said}");
    let device = told(&["--name", &name, "--device", "eth:no-such-device"]);
    assert!(device.contains("eth:no-such-device"), "{device}");
    assert!(told(&["--device", "udp:127.0.0.1:0"]).contains("--name"));
}
