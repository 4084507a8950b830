//! Real programs: whether they are there, ports for them, services that end.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::launch::{Launch, Outcome, Running};

/// Where a program is installed.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| fs::metadata(file).is_ok())
}

/// Whether a test has to be left out because programs are missing; says so.
pub fn skipped(test: &str, programs: &[&str]) -> bool {
    let missing: Vec<&&str> = programs.iter().filter(|name| installed(name).is_none()).collect();
    if !missing.is_empty() {
        println!("SKIPPED: {test}: {missing:?} not installed");
    }
    !missing.is_empty()
}

/// A port that nobody uses at the moment.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
    probe.local_addr().expect("a bound socket has an address").port()
}

/// Waits until a service accepts connections.
pub fn reachable(port: u16, limit: Duration) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let deadline = Instant::now() + limit;
    while TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(Duration::from_millis(20));
    }
    true
}

/// A service of a test; it does not outlive it.
#[derive(Debug)]
pub struct Service {
    running: Running,
    shell: String,
}

impl Service {
    /// Starts it and waits for its port.
    ///
    /// # Panics
    /// If it does not listen in time.
    pub fn start(launch: &Launch, port: u16) -> Self {
        let service = Self { running: launch.start(), shell: launch.shell() };
        if !reachable(port, Duration::from_secs(20)) {
            let shell = service.shell.clone();
            let outcome = service.running.finish(Duration::ZERO);
            panic!("{shell} does not listen:\n{}{}", outcome.stdout, outcome.stderr);
        }
        service
    }

    /// Asks it to end and returns how it did.
    pub fn end(self, signal: i32) -> Outcome {
        self.running.signal(signal);
        self.running.finish(Duration::from_secs(20))
    }
}
