//! Runs the examples with each other, with plain TCP, and under `sovia run`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::{env, thread};

/// Returns the path of a built example. Cargo puts examples beside the tests' folder.
fn example(name: &str) -> PathBuf {
    let own = env::current_exe().expect("a running program has a path");
    let folder = own.ancestors().nth(2).expect("cargo's folder").join("examples");
    let path = folder.join(name);
    assert!(path.exists(), "{} is missing: cargo build -p sovia --examples", path.display());
    path
}

/// Returns the command of an example, under `sovia run` if `under` is set. `None` if `sovia` has not been built.
fn command(name: &str, under: bool) -> Option<Command> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60"]);
    if under {
        let built =
            PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/sovia"));
        let sovia = env::var_os("SOVIA_BIN").map_or(built, PathBuf::from);
        if !sovia.exists() {
            println!("SKIPPED: {name} under sovia run: not built: {}", sovia.display());
            return None;
        }
        command.arg(sovia).args(["run", "--"]);
    }
    command.arg(example(name));
    Some(command)
}

/// A server process, which is killed when this value is dropped.
struct Server {
    child: Child,
    _output: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(mut command: Command) -> Server {
        command.arg("server").process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program that is there");
        let mut output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut address = String::new();
        output.read_line(&mut address).expect("a line");
        Server { child, _output: output, address: address.trim().into() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: takes numbers only. `start` made this process group for the child alone.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

fn client(mut command: Command, address: &str) -> String {
    let output = command.args(["client", address]).output().expect("a program that is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs both ends, each alone and under `sovia run`.
fn all_over_a_vi(name: &str, expected: &str) {
    for (server, asks) in [(false, false), (false, true), (true, false), (true, true)] {
        let (Some(server), Some(asks)) = (command(name, server), command(name, asks)) else {
            continue;
        };
        let server = Server::start(server);
        let said = client(asks, &server.address);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn an_echo() {
    all_over_a_vi("echo", "over a VI");
}

#[test]
fn an_echo_with_mio() {
    all_over_a_vi("mio_echo", "16 streams, 16 over a VI");
}

#[test]
fn an_echo_with_tokio() {
    all_over_a_vi("tokio_echo", "16 streams, 16 over a VI");
}

#[test]
fn a_stream_that_is_not_copied() {
    all_over_a_vi("zero_copy", "GB/s");
}

/// Connects clients of Sovia to a server of std.
#[test]
fn plain_servers() {
    for (name, expected) in
        [("echo", "over TCP"), ("mio_echo", "16 streams, 0"), ("tokio_echo", "16 streams, 0")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a client");
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(n @ 1..) = stream.read(&mut buffer) {
                        stream.write_all(&buffer[..n]).expect("a client that reads");
                    }
                });
            }
        });
        let said = client(command(name, false).expect("an example"), &address);
        assert!(said.contains(expected), "{said}");
    }
}

/// Connects clients of std to a server of Sovia.
#[test]
fn plain_clients() {
    for name in ["echo", "mio_echo", "tokio_echo"] {
        let server = Server::start(command(name, false).expect("an example"));
        let mut stream = std::net::TcpStream::connect(&server.address).expect("a server");
        for round in 0..2000u32 {
            let question = [round as u8; 500];
            stream.write_all(&question).expect("a server that reads");
            let mut answer = [0; 500];
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!(question, answer);
        }
    }
}
