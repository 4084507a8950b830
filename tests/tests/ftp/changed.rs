//! inetutils' client and server, changed as in the papers to use SOCK_VIA for the data connection
//! (`scripts/papers-ftp`). They run with each other, and with unchanged ones under `sovia run` and over the kernel.

use crate::ftp::server::{Programs, Server, noise, programs, replies};
use crate::ftp::session;
use sovia_tests::{Launch, Outcome, Pairing, Stack, accelerated};
use std::fmt::Write;
use std::time::Duration;

const LEN: usize = 20_000_001;

/// Number of tries of a transfer whose ends must meet in time.
const TRIES: usize = 50;

/// Returns the client of a pairing.
pub(crate) fn client(programs: &Programs, pairing: Pairing) -> String {
    let changed = programs.changed.as_ref().expect("they are there");
    match pairing.client {
        Stack::Native => changed.ftp.display().to_string(),
        _ => programs.ftp.display().to_string(),
    }
}

/// Uses the changed programs.
pub(crate) fn with_changed(test: &str) -> Option<Programs> {
    let programs = programs(test)?;
    if programs.changed.is_none() {
        println!("SKIPPED: {test}: `make papers-ftp` has not built the changed programs");
        return None;
    }
    Some(programs)
}

fn run(server: &Server, pairing: Pairing, words: &[&str], input: &str) -> Outcome {
    server.write("wanted", input.as_bytes());
    let launch = Launch::new(pairing.client, words.iter().copied()).verbose(true);
    let outcome = launch.input(server.file("wanted")).start().finish(Duration::from_secs(120));
    assert!(outcome.success(), "{pairing}: {outcome:#?}");
    outcome
}

/// Returns the replies of a session that gets and puts files in both types, and lists a folder.
fn told(programs: &Programs, pairing: Pairing, mode: &[&str]) -> Vec<String> {
    let server = Server::start(programs, pairing.server);
    server.write("served", &noise(5_000_001));
    let mut lines = String::new();
    for i in 0..20_000 {
        writeln!(lines, "line {i}").expect("memory");
    }
    server.write("lines", lines.as_bytes());
    let client = client(programs, pairing);
    let wanted = std::fs::read_to_string(session(&server, "")).expect("it has been written");
    let outcome = run(&server, pairing, &[&[client.as_str()], mode].concat(), &wanted);
    for (one, other) in
        [("served", "one"), ("served", "two"), ("lines", "three"), ("lines", "four")]
    {
        assert!(server.same(one, other), "{pairing}: {other} is not {one}: {outcome:#?}");
    }
    assert!(outcome.stdout.contains("inetd.conf"), "{pairing}: no list: {outcome:#?}");
    server.end();
    replies(&outcome.stdout)
}

fn are_told_as_unchanged_ones(test: &str, mode: &[&str]) {
    let Some(programs) = with_changed(test) else { return };
    let kernel = told(&programs, Pairing::KERNEL, mode);
    for pairing in Pairing::natives() {
        assert_eq!(told(&programs, pairing, mode), kernel, "{pairing}");
    }
}

#[test]
fn changed_programs_in_passive_mode() {
    are_told_as_unchanged_ones("changed_programs_in_passive_mode", &["-n", "-v", "-p"]);
}

#[test]
fn changed_programs_in_active_mode() {
    are_told_as_unchanged_ones("changed_programs_in_active_mode", &["-n", "-v"]);
}

/// Makes one transfer. Returns true if its data connection was on a VI at both ends. The command connection cannot
/// be: a changed program uses the kernel for it.
fn met(server: &Server, pairing: Pairing, client: &str, mode: &[&str], transfer: &str) -> bool {
    let (shown, port) = (server.folder.path().display(), server.port);
    let input = format!(
        "open 127.0.0.1 {port}\nuser root x\nbinary\n{transfer} {shown}/served {shown}/came\nquit\n"
    );
    let outcome = run(server, pairing, &[&[client], mode].concat(), &input);
    assert!(server.same("served", "came"), "{pairing}: {outcome:#?}");
    std::fs::remove_file(server.file("came")).expect("it has come");
    let count = accelerated(&outcome.stderr).expect("both kinds are counted");
    assert!(count <= 1, "{pairing}: one data connection: {outcome:#?}");
    count == 1
}

#[test]
fn data_connections_of_changed_programs_are_on_vis() {
    let Some(programs) = with_changed("data_connections_of_changed_programs_are_on_vis") else {
        return;
    };
    for pairing in Pairing::natives().into_iter().filter(|pairing| pairing.is_accelerated()) {
        let server = Server::start(&programs, pairing.server);
        server.write("served", &noise(LEN));
        let client = client(&programs, pairing);
        for mode in [&["-n", "-v", "-p"][..], &["-n", "-v"]] {
            for transfer in ["get", "put"] {
                let met = |_| met(&server, pairing, &client, mode, transfer);
                assert!((0..TRIES).any(met), "{pairing}: {transfer} {mode:?} stayed on TCP");
            }
        }
        server.end();
    }
}

/// Checks docs/develop/c.md against the patches and the number of their lines.
#[test]
fn the_guide_counts_the_changed_lines() {
    let guide = include_str!("../../../docs/develop/c.md");
    for (program, patch) in [
        ("ftp", include_str!("../../apps-ftp/ftp.patch")),
        ("ftpd", include_str!("../../apps-ftp/ftpd.patch")),
    ] {
        let new = patch.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++"));
        let row = format!("| {program} | {} |", new.count());
        assert!(guide.contains(&row), "docs/develop/c.md has no row {row}");
    }
}
