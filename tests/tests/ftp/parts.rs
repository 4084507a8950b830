//! Parts of files, and many small ones.

use crate::ftp::server::{Programs, Server, noise, programs};
use sovia_tests::{Client, Pairing, Stack, accelerated};
use std::fs;

/// Number of tries of a transfer whose ends must meet in time.
const TRIES: usize = 50;
const LEN: usize = 30_000_001;
const PART: usize = 7_000_003;

/// Resumes a partial file, in both directions; the file is complete afterwards.
fn resume(server: &Server, client: &Client) {
    let whole = noise(LEN);
    server.write("served", &whole);
    let (shown, port) = (server.folder.path().display(), server.port);
    let url = format!("ftp://127.0.0.1:{port}/{shown}");
    for name in ["one", "two", "three", "four"] {
        server.write(name, &whole[..PART]);
    }
    client.run(&format!("curl -sS -C - -u root:x {url}/served -o {shown}/one"));
    client.run(&format!("curl -sS -C - -u root:x -T {shown}/served {url}/two"));
    server.write(
        "wanted",
        format!(
            "open 127.0.0.1 {port}\nuser root x\nbinary\nreget {shown}/served {shown}/three\nquit\n"
        )
        .as_bytes(),
    );
    client.run_with_input("tnftp -n -v", Some(server.file("wanted")));
    server.write(
        "wanted",
        format!(
            "set ftp:ssl-allow no\nopen -u root,x ftp://127.0.0.1:{port}\nput -c {shown}/served -o {shown}/four\n\
             bye\n"
        )
        .as_bytes(),
    );
    client.run_with_input("lftp --norc", Some(server.file("wanted")));
    for name in ["one", "two", "three", "four"] {
        assert!(server.same("served", name), "{client:?}: {name}");
    }
}

#[test]
fn transfers_are_resumed() {
    let Some(programs) = programs("transfers_are_resumed") else { return };
    for pairing in [Pairing::KERNEL].into_iter().chain(Pairing::others()) {
        let server = Server::start(&programs, pairing.server);
        resume(&server, &Client::of(pairing).may_stay_on_tcp());
        server.end();
    }
}

/// A transfer that begins in the middle of the file. Of many transfers, the ends of one must meet.
#[test]
fn a_resumed_transfer_is_accelerated() {
    let Some(programs) = programs("a_resumed_transfer_is_accelerated") else { return };
    let server = Server::start(&programs, Stack::Sovia);
    let whole = noise(LEN);
    server.write("served", &whole);
    let (shown, port) = (server.folder.path().display(), server.port);
    let met = |_| {
        server.write("one", &whole[..PART]);
        let told = Client::of(Pairing::SOVIA).may_stay_on_tcp().run_verbose(&format!(
            "curl -sS -C - -u root:x ftp://127.0.0.1:{port}/{shown}/served -o {shown}/one"
        ));
        assert!(server.same("served", "one"), "{told}");
        accelerated(&told) > Some(0)
    };
    assert!((0..TRIES).any(met), "none of {TRIES} transfers");
    server.end();
}

/// Transfers 60 files each way, each on a connection of its own. These are too short for a rendezvous. The connection
/// for commands belongs to inetd before it belongs to the server. So this test does not check the path of any
/// connection.
fn many(test: &str, client: impl Fn(&Programs) -> String) {
    let Some(programs) = programs(test) else { return };
    for pairing in [Pairing::KERNEL].into_iter().chain(Pairing::others()) {
        let server = Server::start(&programs, pairing.server);
        let bytes = noise(100_000);
        for folder in ["served", "came", "back"] {
            fs::create_dir(server.file(folder)).expect("a folder");
        }
        let len = |i: usize| if i % 20 == 19 { bytes.len() } else { i * 37 };
        for i in 0..60 {
            server.write(&format!("served/{i}"), &bytes[..len(i)]);
        }
        let (shown, port) = (server.folder.path().display(), server.port);
        server.write(
            "wanted",
            format!(
                "open 127.0.0.1 {port}\nuser root x\nbinary\nprompt\ncd {shown}/served\nlcd {shown}/came\nmget *\n\
                 cd {shown}/back\nmput *\nquit\n"
            )
            .as_bytes(),
        );
        let told = Client::of(pairing)
            .may_stay_on_tcp()
            .run_with_input(&client(&programs), Some(server.file("wanted")));
        for i in 0..60 {
            for folder in ["came", "back"] {
                let copy = format!("{folder}/{i}");
                assert!(server.same(&format!("served/{i}"), &copy), "{pairing}: {copy}:\n{told}");
            }
        }
        server.end();
    }
}

#[test]
fn tnftp_gets_and_puts_many_files() {
    many("tnftp_gets_and_puts_many_files", |_| "tnftp -n -v".into());
}

#[test]
fn inetutils_ftp_gets_and_puts_many_files() {
    many("inetutils_ftp_gets_and_puts_many_files", |programs| {
        format!("{} -n -v -p", programs.ftp.display())
    });
}
