//! Servers that change their user or their privileges between login and transfer. They stay on TCP, and
//! report this.

use crate::ftp::server::{Kind, Programs, Server, noise, programs, replies};
use crate::ftp::{LEN, session};
use sovia_tests::{Client, Launch, Pairing, Stack};
use std::time::Duration;

const LINES: usize = 20_000;

/// Returns the output of a client of the BSD kind in a whole session.
fn of_the_bsd_kind(server: &Server, client: &str, mode: &str, pairing: Pairing) -> Vec<String> {
    server.write("served", &noise(LEN));
    let lines: String = (0..LINES).map(|i| format!("line {i}\n")).collect();
    server.write("lines", lines.as_bytes());
    let told =
        Client::of(pairing).may_stay_on_tcp().run_with_input(client, Some(session(server, mode)));
    for (one, other) in
        [("served", "one"), ("served", "two"), ("lines", "three"), ("lines", "four")]
    {
        assert!(server.same(one, other), "{pairing}: {other} is not {one}:\n{told}");
    }
    assert!(told.contains("inetd.conf"), "{pairing}: no list of the folder:\n{told}");
    replies(&told)
}

fn by_curl_and_lftp(server: &Server, pairing: Pairing) {
    let (shown, port) = (server.folder.path().display(), server.port);
    let client = Client::of(pairing).may_stay_on_tcp();
    let url = format!("ftp://127.0.0.1:{port}/{shown}");
    client.run(&format!("curl -sS -u root:x {url}/served -o {shown}/five"));
    client.run(&format!("curl -sS -P - -u root:x -T {shown}/five {url}/six"));
    server.write(
        "wanted",
        format!(
            "set ftp:ssl-allow no\nopen -u root,x ftp://127.0.0.1:{port}\nget {shown}/served -o {shown}/seven\n\
             put {shown}/seven -o {shown}/eight\nls\nbye\n"
        )
        .as_bytes(),
    );
    client.run_with_input("lftp --norc", Some(server.file("wanted")));
    for copy in ["five", "six", "seven", "eight"] {
        assert!(server.same("served", copy), "{pairing}: {copy}");
    }
}

fn serves(kind: Kind, programs: &Programs) {
    let inetutils = programs.ftp.display();
    let clients = [
        ("tnftp -n -v".to_owned(), "passive on\n"),
        ("tnftp -n -v -A".to_owned(), ""),
        (format!("{inetutils} -n -v -p"), ""),
        (format!("{inetutils} -n -v"), ""),
    ];
    let told = |pairing: Pairing| {
        let server = Server::of(kind, programs, pairing.server);
        let told = clients
            .each_ref()
            .map(|(client, mode)| of_the_bsd_kind(&server, client, mode, pairing));
        by_curl_and_lftp(&server, pairing);
        server.end();
        told
    };
    let kernel = told(Pairing::KERNEL);
    assert!(kernel[0].iter().any(|reply| reply.starts_with("550")), "{kernel:?}");
    for pairing in Pairing::others() {
        assert_eq!(told(pairing), kernel, "{pairing}");
    }
}

#[test]
fn pure_ftpd_serves_its_clients() {
    if let Some(programs) = programs("pure_ftpd_serves_its_clients") {
        serves(Kind::Pure, &programs);
    }
}

#[test]
fn vsftpd_serves_its_clients() {
    if let Some(programs) = programs("vsftpd_serves_its_clients") {
        serves(Kind::Vsftpd, &programs);
    }
}

/// Returns the reports of client and server about their connections after a transfer.
fn reports(kind: Kind, programs: &Programs, user: &str) -> [String; 2] {
    let server = Server::of(kind, programs, Stack::Sovia);
    server.write("served", &noise(50_000_000));
    let (shown, port) = (server.folder.path().display(), server.port);
    let url = format!("ftp://127.0.0.1:{port}/{shown}/served");
    let words = ["curl", "-sS", "-u", &format!("{user}:x"), &url, "-o", &format!("{shown}/one")];
    let outcome =
        Launch::new(Stack::Sovia, words).verbose(true).start().finish(Duration::from_secs(120));
    assert!(outcome.success() && server.same("served", "one"), "{outcome:#?}");
    [outcome.stderr, server.end().stderr]
}

/// In a session of root, one process gives up capabilities. In a session of another user, it
/// becomes that user.
#[test]
fn pure_ftpd_reports_the_reason_for_tcp() {
    let Some(programs) = programs("pure_ftpd_reports_the_reason_for_tcp") else { return };
    for (user, reason) in [
        ("root", "the two processes may not read each other's memory"),
        ("guest", "the other end belongs to another user"),
    ] {
        let [client, server] = reports(Kind::Pure, &programs, user);
        for told in [&client, &server] {
            assert!(told.contains("accelerated: 0 ends"), "{user}: {told}");
        }
        assert!(client.contains(reason), "{user}: {client}");
        assert!(
            server.contains("went back to TCP: the program changed its user or its privileges"),
            "{user}: {server}"
        );
    }
}

/// vsftpd first limits its address space to 200 MB, with every configuration.
#[test]
fn vsftpd_reports_the_reason_for_tcp() {
    let Some(programs) = programs("vsftpd_reports_the_reason_for_tcp") else { return };
    for user in ["root", "guest"] {
        let [client, server] = reports(Kind::Vsftpd, &programs, user);
        for told in [&client, &server] {
            assert!(told.contains("accelerated: 0 ends"), "{user}: {told}");
        }
        assert!(
            server.contains("a limit on address space (ulimit -v) leaves no room"),
            "{user}: {server}"
        );
    }
}
