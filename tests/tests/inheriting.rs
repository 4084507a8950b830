//! Unmodified services that inetd, systemd's socket activation or socat starts with a connection or a listener.

use sovia_tests::{
    Client, Pairing, Service, Stack, TempDir, free_port, installed, skipped, sovia, unpacked,
};
use std::fs;

const ROUNDS: u32 = 3000;

/// Returns words that start the service under `sovia run`, if the server's end is under it: for
/// starters that clear the environment.
fn run(pairing: Pairing) -> String {
    match pairing.server {
        Stack::Sovia => format!("{} run -- ", sovia().display()),
        _ => String::new(),
    }
}

/// Returns the interpreter itself, not a script that looks for one.
const PYTHON: &str = "/usr/bin/python3";

fn app(name: &str) -> String {
    format!("{}/apps-py/{name}.py", env!("CARGO_MANIFEST_DIR"))
}

/// Three clients use a service one after the other.
fn is_talked_to(pairing: Pairing, starter: &str, port: u16, signal: i32) {
    let service = Service::start(pairing.server, starter, port);
    for _ in 0..3 {
        let told = Client::of(pairing).run(&format!("{PYTHON} {} {port} {ROUNDS}", app("echoed")));
        assert_eq!(told, format!("{ROUNDS} answers\n"), "{pairing}: {starter}");
    }
    service.end(signal);
}

#[test]
fn a_service_of_inetds() {
    const TEST: &str = "a_service_of_inetds";
    let Some(inetd) = unpacked("openbsd-inetd", "usr/sbin/inetd") else {
        println!("SKIPPED: {TEST}: not there: openbsd-inetd");
        return;
    };
    // SAFETY: reads nothing but this process's user id.
    if skipped(TEST, &["cat"]) || unsafe { libc::geteuid() } != 0 {
        return;
    }
    for pairing in Pairing::others() {
        let (folder, port) = (TempDir::new(), free_port());
        let configuration = folder.path().join("inetd.conf");
        let service = match pairing.server {
            Stack::Sovia => format!("{0} sovia run -- /bin/cat", sovia().display()),
            _ => "/bin/cat cat".into(),
        };
        let line = format!("127.0.0.1:{port} stream tcp nowait root {service}\n");
        fs::write(&configuration, line).expect("a file");
        let starter = format!("{} -i {}", inetd.display(), configuration.display());
        is_talked_to(pairing, &starter, port, libc::SIGTERM);
    }
}

fn activated(test: &str, options: &str, how: &str) {
    if skipped(test, &["systemd-socket-activate"]) || installed("python3").is_none() {
        return;
    }
    for pairing in Pairing::others() {
        let port = free_port();
        let starter = format!(
            "systemd-socket-activate -l 127.0.0.1:{port} {options}{}{PYTHON} {} {how}",
            run(pairing),
            app("activated")
        );
        is_talked_to(pairing, &starter, port, libc::SIGTERM);
    }
}

#[test]
fn a_service_that_systemd_gives_a_connection_as_its_standard_input() {
    let test = "a_service_that_systemd_gives_a_connection_as_its_standard_input";
    activated(test, "--accept --inetd ", "stdio");
}

#[test]
fn a_service_that_systemd_gives_a_connection() {
    activated("a_service_that_systemd_gives_a_connection", "--accept ", "connection");
}

#[test]
fn a_service_that_systemd_gives_a_listener() {
    activated("a_service_that_systemd_gives_a_listener", "", "listener");
}

/// The primary accepts each connection, and sends it to the worker as a descriptor in a message.
#[test]
fn a_worker_of_nodes_cluster() {
    if skipped("a_worker_of_nodes_cluster", &["node"]) {
        return;
    }
    for pairing in Pairing::others() {
        let (folder, port) = (TempDir::new(), free_port());
        let program = folder.path().join("cluster.js");
        let text = "const cluster = require('cluster');
            if (cluster.isPrimary) {
                cluster.fork();
                process.on('SIGTERM', () => process.exit(0));
            } else {
                const echo = (stream) => { stream.setNoDelay(); stream.pipe(stream); };
                require('net').createServer(echo).listen(+process.argv[2], '127.0.0.1');
            }";
        fs::write(&program, text).expect("a file");
        is_talked_to(pairing, &format!("node {} {port}", program.display()), port, libc::SIGTERM);
    }
}

#[test]
fn a_program_that_socat_executes() {
    if skipped("a_program_that_socat_executes", &["socat", "cat"]) {
        return;
    }
    for pairing in Pairing::others() {
        let port = free_port();
        let listen = format!("TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork");
        is_talked_to(pairing, &format!("socat {listen} EXEC:/bin/cat,nofork"), port, libc::SIGTERM);
    }
}
