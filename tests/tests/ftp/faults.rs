//! Clients that are killed during a transfer, and a full disk at the server.

use crate::ftp::server::{Pipe, SMALL, Server, noise, programs, replies};
use sovia_tests::{Launch, Leftovers, Outcome, Pairing};
use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

const LEN: usize = 20_000_001;

fn run(server: &Server, pairing: Pairing, words: &[&str], input: &str) -> Outcome {
    server.write("wanted", input.as_bytes());
    let launch = Launch::new(pairing.client, words.iter().copied());
    launch.input(server.file("wanted")).start().finish(Duration::from_secs(120))
}

/// Starts a client, and kills it after a given number of bytes.
fn killed_in_the_middle(server: &Server, pairing: Pairing, way: &str) {
    let (shown, port) = (server.folder.path().display(), server.port);
    let whole = noise(LEN);
    let mut pipe = Pipe::new(server.file("pipe"));
    let transfer = match way {
        "get" => format!("get {shown}/served \"|cat >{shown}/pipe\""),
        _ => format!("put \"|cat {shown}/pipe\" {shown}/part"),
    };
    let asked = format!("open 127.0.0.1 {port}\nuser root x\nbinary\n{transfer}\nquit\n");
    server.write("wanted", asked.as_bytes());
    let launch = Launch::new(pairing.client, ["tnftp", "-n", "-v"]).input(server.file("wanted"));
    let (mut come, mut at) = (vec![0; 1_000_000], 0);
    let running = pipe.until(launch.start(), |pipe| {
        if way == "get" {
            at += pipe.read(&mut come[at..]).unwrap_or(0);
            return at == come.len();
        }
        at += pipe.write(&whole[at..1_000_000]).unwrap_or(0);
        at == 1_000_000 && fs::metadata(server.file("part")).is_ok_and(|about| about.len() > 0)
    });
    // Without -v, this process is the client itself.
    running.signal(libc::SIGKILL);
    drop(pipe);
    running.finish(Duration::from_secs(60));
    match way {
        "get" => assert!(whole.starts_with(&come), "{pairing}: what has come is wrong"),
        _ => {
            server.await_no_session();
            assert!(server.begins("part", "served"), "{pairing}: what has arrived is wrong");
        }
    }
}

/// The server continues with other clients. No process waits for the dead client, and nothing of it
/// remains.
#[test]
fn clients_are_killed() {
    let Some(programs) = programs("clients_are_killed") else { return };
    let before = Leftovers::before();
    for pairing in [Pairing::KERNEL].into_iter().chain(Pairing::others()) {
        let server = Server::start(&programs, pairing.server);
        server.write("served", &noise(LEN));
        for way in ["get", "put", "get", "put"] {
            killed_in_the_middle(&server, pairing, way);
            let (shown, port) = (server.folder.path().display(), server.port);
            let input = format!(
                "open 127.0.0.1 {port}\nuser root x\nbinary\nget {shown}/served {shown}/one\nquit\n"
            );
            let outcome = run(&server, pairing, &["tnftp", "-n", "-v"], &input);
            assert!(outcome.success() && server.same("served", "one"), "{pairing}: {outcome:#?}");
        }
        server.await_no_session();
        server.end();
    }
    let left = before.after();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Returns the replies and the exit status of a client of the BSD kind whose file has no room.
fn told_of_no_room(server: &Server, pairing: Pairing, client: &[&str]) -> Vec<String> {
    let (shown, port) = (server.folder.path().display(), server.port);
    let input = format!(
        "open 127.0.0.1 {port}\nuser root x\nbinary\nput {shown}/served {shown}/{SMALL}/one\n\
         delete {shown}/{SMALL}/one\nput {shown}/served {shown}/two\n\
         put {shown}/little {shown}/{SMALL}/three\nquit\n"
    );
    let outcome = run(server, pairing, client, &input);
    assert!(server.same("served", "two"), "{pairing}: {outcome:#?}");
    let mut told = replies(&outcome.stdout);
    // The server may look for errno after a failed attempt to log a line, over the kernel too.
    for reply in &mut told {
        reply.truncate(reply.find(':').unwrap_or(reply.len()));
    }
    told.push(format!("{:?}", outcome.status));
    told
}

#[test]
fn the_servers_disk_is_full() {
    let Some(programs) = programs("the_servers_disk_is_full") else { return };
    let told = |pairing: Pairing| {
        let server = Server::start(&programs, pairing.server);
        server.write("served", &noise(LEN));
        server.write("little", &noise(1000));
        let inetutils = programs.ftp.display().to_string();
        let mut told = told_of_no_room(&server, pairing, &["tnftp", "-n", "-v"]);
        told.extend(told_of_no_room(&server, pairing, &[&inetutils, "-n", "-v", "-p"]));
        let (shown, port) = (server.folder.path().display(), server.port);
        let url = format!("ftp://127.0.0.1:{port}/{shown}/{SMALL}/four");
        let words = ["curl", "-sS", "-u", "root:x", "-T", &format!("{shown}/served"), &url];
        let outcome = run(&server, pairing, &words, "");
        told.push(format!("curl: {:?}", outcome.status));
        server.end();
        told
    };
    let kernel = told(Pairing::KERNEL);
    assert!(kernel.iter().any(|reply| reply.starts_with("452 Error writing file")), "{kernel:#?}");
    for pairing in Pairing::others() {
        let told = told(pairing);
        for (told, kernel) in told.iter().zip(&kernel) {
            assert_eq!(told, kernel, "{pairing}");
        }
        assert_eq!(told.len(), kernel.len(), "{pairing}: {told:#?}");
    }
}
