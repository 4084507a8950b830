//! Builds C programs against the library, and runs them.

#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

#[path = "../../../testing/commands.rs"]
mod commands;
#[path = "../../../testing/library.rs"]
mod library;

pub(crate) use commands::*;
pub(crate) use library::*;

const LIBRARY: &str = "libsovia";
const ARCHIVE: &str = "libsovia_c";
const VARIABLE: &str = "SOVIA_LIB";

/// Compiles a C program of this crate with `-lsovia`, and returns its path.
pub(crate) fn program(source: &str) -> PathBuf {
    compiled(source, "cc", "c99", "so")
}

/// Compiles a program with the given compiler and language standard. `how` is `so` or `a`, the kind of library to link.
pub(crate) fn compiled(source: &str, compiler: &str, standard: &str, how: &str) -> PathBuf {
    // Compiles each program only once: other tests may be running it.
    static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let library = library();
    let name = Path::new(source).file_stem().expect("a source has a name").to_string_lossy();
    let program = folder().join(format!("{name}-{standard}-{how}"));
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if built.contains(&program) {
        return program;
    }
    let place = library.parent().expect("a library lies in a folder");
    let mut command = Command::new(compiler);
    command.arg(format!("-std={standard}")).args(["-D_GNU_SOURCE", "-pedantic", "-O1", "-g"]);
    command.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(include());
    if compiler.ends_with("++") {
        command.args(["-x", "c++"]);
    }
    command.arg(here().join(source)).args(["-x", "none", "-o"]).arg(&program);
    match how {
        "a" => command.arg(archive()).args(["-lgcc_s", "-lpthread", "-ldl", "-lm"]),
        _ => command
            .arg("-L")
            .arg(place)
            .args(["-lsovia", "-pthread"])
            .arg(format!("-Wl,-rpath,{}", place.display())),
    };
    run(&mut command);
    built.insert(program.clone());
    program
}

/// A command under a watchdog.
pub(crate) fn watched(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60"]).arg(program).stdin(Stdio::null());
    command
}

/// A server process, which is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    /// First line that the server printed: its address.
    pub(crate) place: String,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Server {
        // The server gets a process group of its own, so that a kill reaches all processes that it started.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program that is there");
        let mut output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut place = String::new();
        output.read_line(&mut place).expect("a line");
        Server { child, output, place: place.trim().into() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: takes numbers only. `start` made this process group for the child alone.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// Returns the path of `sovia` if it has been built. Prints a line about the skipped test if not.
pub(crate) fn sovia(test: &str) -> Option<PathBuf> {
    let built = here().join("../../target/release/sovia");
    let sovia = env::var_os("SOVIA_BIN").map_or(built, PathBuf::from);
    if !sovia.exists() {
        println!("SKIPPED: {test}: not built: {}", sovia.display());
        return None;
    }
    Some(sovia)
}
