//! Real programs: finds them, and starts services and clients with free ports.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::fd::IntoRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use sovia_sys::{Fd, call};

use crate::launch::{Launch, Outcome, Running};
use crate::pairing::{Pairing, Stack};
use crate::summary::accelerated;
use crate::workspace::{kernel_only, sovia};

/// Returns the path of an installed program.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| fs::metadata(file).is_ok())
}

/// Returns a program from a package that `scripts/setup test` has unpacked.
///
/// # Panics
/// If the build is not where `make build` leaves it.
pub fn unpacked(package: &str, path: &str) -> Option<PathBuf> {
    let build = sovia();
    let target = build.ancestors().nth(2).expect("the build lies two folders deep");
    Some(target.join("unpacked").join(package).join(path)).filter(|file| file.exists())
}

/// Returns true if programs are missing, and prints that the test is skipped.
pub fn skipped(test: &str, programs: &[&str]) -> bool {
    let missing: Vec<&str> =
        programs.iter().copied().filter(|name| installed(name).is_none()).collect();
    if !missing.is_empty() {
        println!("SKIPPED: {test}: not installed: {}", missing.join(", "));
    }
    !missing.is_empty()
}

/// Returns a free port. No other test gets it until this process ends. No connection gets it, because it is below the
/// ports that the kernel assigns.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const PORTS: Range<u32> = 20_000..32_000;
    for _ in PORTS {
        // Let each process begin at another port.
        let turn =
            process::id().wrapping_mul(37).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (PORTS.start + turn % (PORTS.end - PORTS.start)) as u16;
        let name = env::temp_dir().join(format!("sovia-tests-port-{port}"));
        let mine = File::create(name).expect("a file that says whose a port is");
        if mine.try_lock().is_ok() && is_free(port) {
            // Keep the lock until this process ends.
            let _ = mine.into_raw_fd();
            return port;
        }
    }
    panic!("no port between {} and {} is free", PORTS.start, PORTS.end)
}

/// Returns true if any program can listen on a port. A program without SO_REUSEADDR cannot while a connection of the
/// port is in TIME-WAIT.
fn is_free(port: u16) -> bool {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    let socket = Fd::make(|| call::socket(libc::AF_INET, kind, 0)).expect("a socket");
    // A `sockaddr_in` without an address: all addresses of this host.
    let mut any = [0; 16];
    any[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    any[2..4].copy_from_slice(&port.to_be_bytes());
    call::bind(socket.raw(), &any).is_ok()
}

/// Waits until a socket listens on a port. Makes no connection, which could take the place of the
/// client's.
fn listening(port: u16, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while !listeners().contains(&port) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(Duration::from_millis(20));
    }
    true
}

/// Returns the listening ports in the kernel's list.
fn listeners() -> BTreeSet<u16> {
    const LISTEN: &str = "0A";
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let text: String = tables.into_iter().flatten().collect();
    let port = |line: &str| {
        let mut fields = line.split_whitespace();
        let (local, state) = (fields.nth(1)?, fields.nth(1)?);
        let (_, port) = local.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok().filter(|_| state == LISTEN)
    };
    text.lines().filter_map(port).collect()
}

/// Returns the words of a command line; the first word is also looked up in the folders of
/// services.
fn launch(stack: Stack, line: &str) -> Launch {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a command has a first word");
    let path = installed(program).unwrap_or_else(|| panic!("{program} is not installed"));
    Launch::new(stack, std::iter::once(path.into_os_string()).chain(words.map(Into::into)))
}

/// A service of a test, which ends with this value.
#[derive(Debug)]
pub struct Service {
    running: Running,
    shell: String,
}

impl Service {
    /// Starts a command line and waits until it listens.
    ///
    /// # Panics
    /// If it does not listen in time.
    pub fn start(stack: Stack, line: &str, port: u16) -> Self {
        Self::launch(&launch(stack, line), port)
    }

    /// Like `start`, with `sovia run -v`, which must not change anything.
    ///
    /// # Panics
    /// If the service does not listen in time.
    pub fn start_verbose(stack: Stack, line: &str, port: u16) -> Self {
        Self::launch(&launch(stack, line).verbose(true), port)
    }

    fn launch(launch: &Launch, port: u16) -> Self {
        let service = Self { running: launch.start(), shell: launch.shell() };
        if !listening(port, Duration::from_secs(60)) {
            let shell = service.shell.clone();
            let outcome = service.running.finish(Duration::ZERO);
            panic!("{shell} does not listen:\n{}{}", outcome.stdout, outcome.stderr);
        }
        service
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Sends it a signal, and returns how it ended.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn end(self, signal: i32) -> Outcome {
        self.running.signal(signal);
        self.ended()
    }

    /// Waits for the end after a signal.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn ended(self) -> Outcome {
        let outcome = self.running.finish(Duration::from_secs(60));
        assert!(outcome.status.is_some(), "{} does not end: {outcome:#?}", self.shell);
        outcome
    }
}

/// Options with which clients are started.
#[derive(Clone, Debug)]
pub struct Client {
    pairing: Pairing,
    must_accelerate: bool,
    rules: Option<&'static str>,
}

impl Client {
    /// Makes the client of a pairing.
    pub fn of(pairing: Pairing) -> Self {
        Self { pairing, must_accelerate: pairing == Pairing::SOVIA && !kernel_only(), rules: None }
    }

    /// Allows connections to stay on TCP.
    #[must_use]
    pub fn may_stay_on_tcp(mut self) -> Self {
        self.must_accelerate = false;
        self
    }

    /// Sets SOVIA_RULES.
    #[must_use]
    pub fn rules(mut self, rules: &'static str) -> Self {
        self.rules = Some(rules);
        self
    }

    fn launch(&self, line: &str) -> Launch {
        let launch = launch(self.pairing.client, line);
        match self.rules {
            Some(rules) => launch.env("SOVIA_RULES", rules),
            None => launch,
        }
    }

    /// Runs a command line to its end, within two minutes, and returns its output.
    ///
    /// # Panics
    /// If it does not end by itself with status 0, or stays on TCP without need.
    pub fn run(&self, line: &str) -> String {
        self.run_with_input(line, None)
    }

    /// Runs the client under `sovia run -v`, and returns the report.
    ///
    /// # Panics
    /// If it does not end by itself with status 0.
    pub fn run_verbose(&self, line: &str) -> String {
        let launch = self.launch(line).verbose(true);
        let outcome = launch.start().finish(Duration::from_secs(120));
        assert!(outcome.success(), "{}\n{}: {outcome:#?}", launch.shell(), self.pairing);
        outcome.stderr
    }

    /// Runs the client with a file as standard input.
    ///
    /// # Panics
    /// If it does not end by itself with status 0, or stays on TCP without need.
    pub fn run_with_input(&self, line: &str, input: Option<PathBuf>) -> String {
        let mut launch = self.launch(line).verbose(self.must_accelerate);
        if let Some(file) = input {
            launch = launch.input(file);
        }
        let outcome = launch.start().finish(Duration::from_secs(120));
        let (shell, pairing) = (launch.shell(), self.pairing);
        assert!(outcome.success(), "{shell}\n{pairing}: {outcome:#?}");
        if self.must_accelerate {
            let count = accelerated(&outcome.stderr);
            assert!(count > Some(0), "{shell}\nstayed on TCP: {}", outcome.stderr);
        }
        outcome.stdout
    }
}
