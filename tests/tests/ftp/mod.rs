//! FTP: Debian's unmodified server under inetd, and its clients. The server's connection is its standard input,
//! output and error. Data connections carry the files.
//!
//! Needs root: the server logs users in, by accounts that only the server sees.

mod aborts;
mod changed;
mod faults;
mod others;
mod parts;
mod server;

use server::{GUEST, Programs, Server, noise, programs};
use sovia_tests::{Client, Pairing, Stack};
use std::fs;
use std::path::PathBuf;

const LEN: usize = 5_000_001;

/// Commands of a session of a client of the BSD kind: both directions, both types, and a list that the server's `ls`
/// makes.
fn session(server: &Server, mode: &str) -> PathBuf {
    let (shown, port) = (server.folder.path().display(), server.port);
    let wanted = server.file("wanted");
    let text = format!(
        "open 127.0.0.1 {port}\nuser root x\n{mode}binary\npwd\nget {shown}/served {shown}/one\ndir\n\
         put {shown}/served {shown}/two\nascii\nget {shown}/lines {shown}/three\n\
         put {shown}/lines {shown}/four\nget {shown}/missing {shown}/five\nquit\n"
    );
    fs::write(&wanted, text).expect("a file of commands");
    wanted
}

/// Runs a session in every pairing. Data connections are short, so the test does not check their
/// paths.
fn of_the_bsd_kind(test: &str, client: impl Fn(&Programs) -> String, mode: &str) {
    let Some(programs) = programs(test) else { return };
    for pairing in Pairing::others() {
        let server = Server::start(&programs, pairing.server);
        server.write("served", &noise(LEN));
        let lines: String = (0..20_000).map(|i| format!("line {i}\n")).collect();
        server.write("lines", lines.as_bytes());
        let told = Client::of(pairing)
            .may_stay_on_tcp()
            .run_with_input(&client(&programs), Some(session(&server, mode)));
        for (one, other) in
            [("served", "one"), ("served", "two"), ("lines", "three"), ("lines", "four")]
        {
            assert!(server.same(one, other), "{pairing}: {other} is not {one}:\n{told}");
        }
        assert!(told.contains("221 Goodbye") && told.contains("550"), "{pairing}: {told}");
        assert!(told.contains("inetd.conf"), "{pairing}: no list of the folder:\n{told}");
        server.end();
    }
}

#[test]
fn tnftp_in_passive_mode() {
    of_the_bsd_kind("tnftp_in_passive_mode", |_| "tnftp -n -v".into(), "passive on\n");
}

#[test]
fn tnftp_in_active_mode() {
    of_the_bsd_kind("tnftp_in_active_mode", |_| "tnftp -n -v -A".into(), "");
}

#[test]
fn inetutils_ftp_in_passive_mode() {
    let client = |programs: &Programs| format!("{} -n -v -p", programs.ftp.display());
    of_the_bsd_kind("inetutils_ftp_in_passive_mode", client, "");
}

#[test]
fn inetutils_ftp_in_active_mode() {
    let client = |programs: &Programs| format!("{} -n -v", programs.ftp.display());
    of_the_bsd_kind("inetutils_ftp_in_active_mode", client, "");
}

#[test]
fn curl_gets_and_puts() {
    let Some(programs) = programs("curl_gets_and_puts") else { return };
    for pairing in Pairing::others() {
        let server = Server::start(&programs, pairing.server);
        server.write("served", &noise(LEN));
        let (shown, port) = (server.folder.path().display(), server.port);
        let client = Client::of(pairing).may_stay_on_tcp();
        for way in ["", "-P - "] {
            client.run(&format!(
                "curl -sS {way}-u root:x ftp://127.0.0.1:{port}/served -o {shown}/one"
            ));
            client
                .run(&format!("curl -sS {way}-u root:x -T {shown}/one ftp://127.0.0.1:{port}/two"));
            assert!(
                server.same("served", "one") && server.same("served", "two"),
                "{pairing}, {way}"
            );
        }
        server.end();
    }
}

#[test]
fn lftp_gets_and_puts() {
    let Some(programs) = programs("lftp_gets_and_puts") else { return };
    for pairing in Pairing::others() {
        let server = Server::start(&programs, pairing.server);
        server.write("served", &noise(LEN));
        let (shown, port) = (server.folder.path().display(), server.port);
        server.write(
            "wanted",
            format!(
                "set ftp:ssl-allow no\nopen -u root,x ftp://127.0.0.1:{port}\nget served -o {shown}/one\n\
                 put {shown}/one -o two\nls\nbye\n"
            )
            .as_bytes(),
        );
        let told = Client::of(pairing)
            .may_stay_on_tcp()
            .run_with_input("lftp --norc", Some(server.file("wanted")));
        assert!(server.same("served", "one") && server.same("served", "two"), "{pairing}: {told}");
        assert!(told.contains("inetd.conf"), "{pairing}: no list of the folder:\n{told}");
        server.end();
    }
}

/// Returns the report of `sovia run -v` about a transfer by curl as this user.
fn report(server: &Server, user: &str) -> String {
    report_of(&Client::of(Pairing::SOVIA), server, user)
}

fn report_of(client: &Client, server: &Server, user: &str) -> String {
    let (shown, port) = (server.folder.path().display(), server.port);
    let line = format!("curl -sS -u {user}:x ftp://127.0.0.1:{port}/served -o {shown}/one");
    let told = client.run_verbose(&line);
    assert!(server.same("served", "one"), "{told}");
    told
}

/// The machine decides whether the ends meet in time, so one of many transfers must.
fn one_is_accelerated(server: &Server, transfer: impl Fn() -> String) {
    server.write("served", &noise(50_000_000));
    let reports: Vec<String> = (0..50)
        .map(|_| transfer())
        .take_while(|told| !told.contains("accelerated: 1 end of a connection"))
        .collect();
    assert!(reports.len() < 50, "none of 50 transfers: {}", reports.last().map_or("", |told| told));
}

#[test]
fn data_connections_are_accelerated() {
    let Some(programs) = programs("data_connections_are_accelerated") else { return };
    let server = Server::start(&programs, Stack::Sovia);
    one_is_accelerated(&server, || report(&server, "root"));
    server.end();
}

/// The client is root. The sending server has become another user after its start.
#[test]
fn data_connections_with_a_server_that_has_changed_its_user_are_accelerated_if_both_trust() {
    let test =
        "data_connections_with_a_server_that_has_changed_its_user_are_accelerated_if_both_trust";
    let Some(programs) = programs(test) else { return };
    let server = Server::trusting(&programs);
    let client = Client::of(Pairing::SOVIA).rules("trust:uid=1234");
    one_is_accelerated(&server, || report_of(&client, &server, "guest"));
    server.end();
}

/// A server that has changed its user stays on TCP, and reports this.
#[test]
fn a_server_that_changes_its_user_stays_on_tcp() {
    let Some(programs) = programs("a_server_that_changes_its_user_stays_on_tcp") else { return };
    let server = Server::start(&programs, Stack::Sovia);
    server.write("served", &noise(50_000_000));
    let told = report(&server, "guest");
    assert!(told.contains("accelerated: 0 ends"), "{told}");
    assert!(told.contains(&format!("to the user with id {GUEST}")), "{told}");
    server.end();
}
