//! Runs the tests of the Go module over libsovia under Go's race detector. Also golang.org/x/net's tests for
//! connections, and the module's example.

use crate::common::{Server, folder, here, include, library, run, skipped};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Returns the Go module's folder.
fn module() -> PathBuf {
    here().join("../../lang/go")
}

/// Returns the command `go` with these arguments, to run in the folder `place`. The command finds the built libsovia
/// through pkg-config, like a user's program.
fn go(place: &str, words: &[&str]) -> Command {
    let library = library();
    let libraries = library.parent().expect("a library lies in a folder");
    let described = folder().join("pkgconfig");
    fs::create_dir_all(&described).expect("a folder");
    let text = format!(
        "Name: sovia\nDescription: as built\nVersion: 0\nCflags: -I{}\nLibs: -L{} -lsovia\n",
        include().display(),
        libraries.display()
    );
    fs::write(described.join("sovia.pc"), text).expect("a file");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "600", "go"]).args(words).current_dir(module().join(place));
    command.env("PKG_CONFIG_PATH", described).env("LD_LIBRARY_PATH", libraries);
    // Go's build cache ignores the output of pkg-config, but not this variable.
    command.env("CGO_LDFLAGS", format!("-L{}", libraries.display()));
    command
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

#[test]
fn the_module_passes_its_tests_without_races() {
    if skipped("the_module_passes_its_tests_without_races", "go") {
        return;
    }
    let output = go(".", &["test", "-race", "-count=1", "./..."]).output().expect("go runs");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn connections_are_what_nettest_asks_of_them() {
    let name = "connections_are_what_nettest_asks_of_them";
    if skipped(name, "go") {
        return;
    }
    // Downloads golang.org/x/net from the module proxy, or takes it from the cache.
    let got = go("conformance", &["mod", "download"]).output().expect("go runs");
    if !got.status.success() {
        println!("SKIPPED: {name}: golang.org/x/net cannot be had: {}", said(&got).trim());
        return;
    }
    let output = go("conformance", &["test", "-race", "-count=1", "-v", "./..."]).output();
    let output = output.expect("go runs");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for part in ["BasicIO", "RacyWrite", "PresentTimeout", "CloseTimeout", "ConcurrentMethods"] {
        assert!(said.contains(&format!("--- PASS: TestConn/{part}")), "{part} in {said}");
    }
}

#[test]
fn a_web_server_needs_one_line() {
    if skipped("a_web_server_needs_one_line", "go") {
        return;
    }
    let program = folder().join("go-web");
    let path = program.to_str().expect("a path that is text");
    // Built with the tests' flags, so that Go compiles nothing a second time.
    run(&mut go(".", &["build", "-race", "-o", path, "./examples/web"]));
    let libraries = library();
    let libraries = libraries.parent().expect("a library lies in a folder");
    let mut command = Command::new(&program);
    let server = Server::start(command.arg("127.0.0.1:0").env("LD_LIBRARY_PATH", libraries));
    let mut client = TcpStream::connect(&server.place).expect("a server that listens");
    let request = "GET /there HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    client.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello /there\n"),
        "{answer}"
    );
}
