//! Clients that abort transfers. Urgent data on the command connection interrupts a server that reads or writes the
//! data connection. Later commands on the same connection must work.

use crate::ftp::changed::{client, with_changed};
use crate::ftp::server::{Kind, Pipe, Programs, Server, noise, programs, replies};
use sovia_tests::{Launch, Outcome, Pairing, Running, Stack, accelerated};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

const LEN: usize = 20_000_001;

/// Number of tries of a run whose ends must meet in time.
const TRIES: usize = 20;

fn server(kind: Kind, programs: &Programs, pairing: Pairing) -> Server {
    let server = Server::of(kind, programs, pairing.server);
    server.write("served", &noise(LEN));
    server
}

/// Runs a client of our own, which aborts transfers as in RFC 959.
fn abort(server: &Server, pairing: Pairing, ways: &[&str]) -> Outcome {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-ftp/aborts.py");
    let (port, folder) = (server.port.to_string(), server.folder.path().display().to_string());
    let mut words = vec!["python3".to_owned(), program.display().to_string(), port, folder];
    words.extend(ways.iter().map(|&way| way.to_owned()));
    let outcome =
        Launch::new(pairing.client, words).verbose(true).start().finish(Duration::from_secs(120));
    assert!(outcome.success(), "{pairing}: {outcome:#?}");
    outcome
}

/// Aborts transfers in one session, in every pairing. Returns the output with Sovia at both ends.
fn is_aborted_alike(kind: Kind, programs: &Programs, ways: &[&str]) -> Outcome {
    let told = |pairing| {
        let server = server(kind, programs, pairing);
        let outcome = abort(&server, pairing, ways);
        server.end();
        outcome
    };
    let kernel = told(Pairing::KERNEL);
    assert!(!kernel.stdout.contains("False"), "{}", kernel.stdout);
    let alike = |pairing| {
        let outcome = told(pairing);
        assert_eq!(outcome.stdout, kernel.stdout, "{pairing}");
        outcome
    };
    // The first pairing has both ends on Sovia.
    Pairing::others().into_iter().map(alike).collect::<Vec<_>>().swap_remove(0)
}

/// The server takes no second abort in a session, over the kernel either. It leaves its handler by longjmp, so the
/// signal stays blocked.
fn with_inetutils(test: &str, way: &str) {
    let Some(programs) = programs(test) else { return };
    is_aborted_alike(Kind::Inetutils, &programs, &[way]);
    let server = server(Kind::Inetutils, &programs, Pairing::SOVIA);
    // Of any two data connections, one carries a file.
    let met = |_| accelerated(&abort(&server, Pairing::SOVIA, &[way]).stderr) >= Some(2);
    assert!((0..TRIES).any(met), "no data connection was accelerated");
    server.end();
}

#[test]
fn a_download_is_aborted() {
    with_inetutils("a_download_is_aborted", "get");
}

#[test]
fn an_upload_is_aborted() {
    with_inetutils("an_upload_is_aborted", "put");
}

#[test]
fn pure_ftpd_is_told_to_abort() {
    if let Some(programs) = programs("pure_ftpd_is_told_to_abort") {
        is_aborted_alike(Kind::Pure, &programs, &["get", "put"]);
    }
}

#[test]
fn vsftpd_is_told_to_abort() {
    if let Some(programs) = programs("vsftpd_is_told_to_abort") {
        is_aborted_alike(Kind::Vsftpd, &programs, &["get", "put"]);
    }
}

/// The user interrupts a BSD client during a download, and then during an upload.
fn interrupted(server: &Server, client: &str, pairing: Pairing) -> Outcome {
    let (shown, port) = (server.folder.path().display(), server.port);
    let (mut out, mut into) = (Pipe::new(server.file("out")), Pipe::new(server.file("into")));
    server.write(
        "wanted",
        format!(
            "open 127.0.0.1 {port}\nuser root x\nbinary\nget {shown}/served \"|cat >{shown}/out\"\n\
             get {shown}/served {shown}/one\nput \"|cat {shown}/into\" {shown}/part\n\
             put {shown}/served {shown}/two\nquit\n"
        )
        .as_bytes(),
    );
    let words = client.split_whitespace();
    let launch = Launch::new(pairing.client, words).input(server.file("wanted")).verbose(true);
    let mut running = launch.start();
    let mut come = vec![0; 1_000_000];
    let mut at = 0;
    running = out.until(running, |pipe| {
        at += pipe.read(&mut come[at..]).unwrap_or(0);
        at == come.len()
    });
    assert!(noise(LEN).starts_with(&come), "{pairing}: what has come is wrong");
    interrupt(&running, pairing);
    drop(out);
    let mut at = 0;
    running = into.until(running, |pipe| {
        at += pipe.write(&come[at..]).unwrap_or(0);
        at == come.len() && fs::metadata(server.file("part")).is_ok_and(|about| about.len() > 0)
    });
    interrupt(&running, pairing);
    drop(into);
    let outcome = running.finish(Duration::from_secs(120));
    assert!(outcome.success(), "{pairing}: {outcome:#?}");
    for copy in ["one", "two"] {
        assert!(server.same("served", copy), "{pairing}: {copy}: {outcome:#?}");
        fs::remove_file(server.file(copy)).expect("it is there");
    }
    assert!(server.begins("part", "served"), "{pairing}: {outcome:#?}");
    fs::remove_file(server.file("part")).expect("it is there");
    outcome
}

/// The client itself, because its supervisor might pass the signal on after the end of the transfer.
fn interrupt(running: &Running, pairing: Pairing) {
    let mut client = running.id();
    if pairing.client == Stack::Sovia {
        let children = fs::read_to_string(format!("/proc/{client}/task/{client}/children"));
        let children = children.expect("the supervisor runs");
        client = children.trim().parse().expect("the client is its only child");
    }
    // SAFETY: kill has no memory effects; the client waits for this test.
    unsafe { libc::kill(client.cast_signed(), libc::SIGINT) };
}

/// The changed server and the changed client leave libsovia's calls by longjmp.
#[test]
fn changed_programs_are_aborted() {
    let Some(programs) = with_changed("changed_programs_are_aborted") else { return };
    let told = |pairing: Pairing, way| {
        let server = server(Kind::Inetutils, &programs, pairing);
        let outcome = abort(&server, pairing, &[way]);
        server.end();
        outcome.stdout
    };
    for way in ["get", "put"] {
        let kernel = told(Pairing::KERNEL, way);
        for client in [Stack::Sovia, Stack::Kernel] {
            let pairing = Pairing { server: Stack::Native, client };
            assert_eq!(told(pairing, way), kernel, "{pairing}");
        }
        let pairing = Pairing { server: Stack::Native, client: Stack::Sovia };
        let server = server(Kind::Inetutils, &programs, pairing);
        let met = |_| accelerated(&abort(&server, pairing, &[way]).stderr) >= Some(1);
        assert!((0..TRIES).any(met), "no data connection was accelerated");
        server.end();
    }
}

#[test]
fn a_changed_client_is_interrupted() {
    let Some(programs) = with_changed("a_changed_client_is_interrupted") else { return };
    let told = |pairing: Pairing| {
        let client = format!("{} -n -v -p", client(&programs, pairing));
        let server = server(Kind::Inetutils, &programs, pairing);
        let outcome = interrupted(&server, &client, pairing);
        server.end();
        outcome
    };
    let kernel = replies(&told(Pairing::KERNEL).stdout);
    for pairing in Pairing::natives() {
        assert_eq!(replies(&told(pairing).stdout), kernel, "{pairing}");
    }
    let met = |_| accelerated(&told(Pairing::NATIVE).stderr) >= Some(1);
    assert!((0..TRIES).any(met), "no data connection was accelerated");
}

fn is_interrupted_alike(test: &str, client: impl Fn(&Programs) -> String) {
    let Some(programs) = programs(test) else { return };
    let client = client(&programs);
    let told = |pairing| {
        let server = server(Kind::Inetutils, &programs, pairing);
        let outcome = interrupted(&server, &client, pairing);
        server.end();
        outcome
    };
    let kernel = replies(&told(Pairing::KERNEL).stdout);
    assert!(kernel.contains(&"226 Abort successful".to_owned()), "{kernel:?}");
    for pairing in Pairing::others() {
        assert_eq!(replies(&told(pairing).stdout), kernel, "{pairing}");
    }
    let server = Server::start(&programs, Stack::Sovia);
    server.write("served", &noise(LEN));
    let met = |_| accelerated(&interrupted(&server, &client, Pairing::SOVIA).stderr) >= Some(2);
    assert!((0..TRIES).any(met), "no data connection was accelerated");
    server.end();
}

#[test]
fn tnftp_is_interrupted() {
    is_interrupted_alike("tnftp_is_interrupted", |_| "tnftp -n -v".into());
}

#[test]
fn inetutils_ftp_is_interrupted() {
    is_interrupted_alike("inetutils_ftp_is_interrupted", |programs| {
        format!("{} -n -v -p", programs.ftp.display())
    });
}
