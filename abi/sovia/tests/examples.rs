//! Compiles the examples as the guide says, and runs them.

use crate::common::{Server, compiled, program, run, skipped, sovia, watched};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

fn client(program: &Path, place: &str) -> String {
    run(watched(program).args(["client", place]))
}

#[test]
fn an_echo_goes_over_a_vi() {
    let echo = program("examples/echo.c");
    let server = Server::start(Command::new(&echo).arg("server"));
    assert_eq!(client(&echo, &server.place), "10000 round trips over a VI\n");
}

#[test]
fn the_same_in_cpp_and_linked_statically() {
    let shared = program("examples/echo.c");
    let built_in = compiled("examples/echo.c", "cc", "c99", "a");
    let server = Server::start(Command::new(&built_in).arg("server"));
    assert_eq!(client(&shared, &server.place), "10000 round trips over a VI\n");
    if !skipped("the_same_in_cpp_and_linked_statically", "g++") {
        // C++ does not convert `void *` implicitly, but echo.c uses no such conversion.
        let cpp = compiled("examples/echo.c", "g++", "c++17", "so");
        assert_eq!(client(&cpp, &server.place), "10000 round trips over a VI\n");
    }
}

/// Runs each end in three ways: with libsovia alone, under `sovia run`, and both.
#[test]
fn under_sovia_run_the_one_engine_serves() {
    let Some(sovia) = sovia("under_sovia_run_the_one_engine_serves") else { return };
    let echo = program("examples/echo.c");
    let under = |role: &str| {
        let mut command = Command::new("timeout");
        command.arg("60").arg(&sovia).args(["run", "-v", "--"]).arg(&echo).arg(role);
        command
    };
    let native = Server::start(Command::new(&echo).arg("server"));
    let both = Server::start(&mut under("server"));
    for server in [&native, &both] {
        assert_eq!(client(&echo, &server.place), "10000 round trips over a VI\n");
        let output = under("client").arg(&server.place).output().expect("a program that runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "10000 round trips over a VI\n");
        // One engine serves the process, so the connection is counted once.
        let summary = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(summary.contains("accelerated: 1 end"), "{summary}");
    }
}

#[test]
fn a_plain_server_is_talked_to_over_tcp() {
    let echo = program("examples/echo.c");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let plain = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..n]).expect("a client that reads");
        }
    });
    let said = client(&echo, &port.to_string());
    assert!(said.starts_with("10000 round trips over TCP: "), "{said}");
    plain.join().expect("no panic");
}

#[test]
fn messages_are_not_copied() {
    let stream = program("examples/zero_copy.c");
    let server = Server::start(Command::new(&stream).arg("server"));
    assert_eq!(client(&stream, &server.place), "2000 messages arrived, some in place\n");
}

#[test]
fn messages_are_not_copied_under_sovia_run_either() {
    let Some(sovia) = sovia("messages_are_not_copied_under_sovia_run_either") else { return };
    let stream = program("examples/zero_copy.c");
    let mut server = Command::new(&sovia);
    let server = Server::start(server.args(["run", "--"]).arg(&stream).arg("server"));
    assert_eq!(client(&stream, &server.place), "2000 messages arrived, some in place\n");
    let mut again = Command::new("timeout");
    again.arg("60").arg(&sovia).args(["run", "--"]).arg(&stream).args(["client", &server.place]);
    assert_eq!(run(&mut again), "2000 messages arrived, some in place\n");
}

/// Connects to a real Redis server, which does not know of Sovia, with and without `sovia run`.
#[test]
fn a_client_of_redis() {
    if skipped("a_client_of_redis", "redis-server") {
        return;
    }
    let Some(sovia) = sovia("a_client_of_redis") else { return };
    let redis = program("examples/redis.c");
    for (under, path) in [(true, "a VI"), (false, "TCP")] {
        let port = {
            let probe = TcpListener::bind("127.0.0.1:0").expect("a port");
            probe.local_addr().expect("an address").port().to_string()
        };
        let mut command = Command::new(if under { sovia.as_os_str() } else { "env".as_ref() });
        command.args(if under { &["run", "--"][..] } else { &[] });
        command.args(["redis-server", "--save", "", "--bind", "127.0.0.1", "--port", &port]);
        let _server = Server::start(&mut command);
        let mut tries = 0;
        while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            tries += 1;
            assert!(tries < 500, "Redis does not listen");
            thread::sleep(std::time::Duration::from_millis(20));
        }
        let said = run(watched(&redis).arg(&port));
        assert_eq!(said, format!("1000 keys set and got over {path}\n"));
    }
}
