//! Building C programs against the library, and running them.

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

/// Compiles a C program of this crate, with `-lsovia`.
pub(crate) fn program(source: &str) -> PathBuf {
    compiled(source, "cc", "c99", "so")
}

/// The same in a language of that name; `so` or `a` says how it is linked.
pub(crate) fn compiled(source: &str, compiler: &str, standard: &str, how: &str) -> PathBuf {
    // Each once: other tests may be running it.
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

/// A server that goes away with its value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    /// What it printed first: where it listens.
    pub(crate) place: String,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Server {
        // A group of its own: it goes with everything that it has started.
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
        // SAFETY: takes numbers only; the group was made for this child.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// `sovia`, if it has been built.
pub(crate) fn sovia(test: &str) -> Option<PathBuf> {
    let built = here().join("../../target/release/sovia");
    let sovia = env::var_os("SOVIA_BIN").map_or(built, PathBuf::from);
    if !sovia.exists() {
        println!("SKIPPED: {test}: not built: {}", sovia.display());
        return None;
    }
    Some(sovia)
}
