//! Builds C programs against the library, and runs them.

#![allow(dead_code, reason = "each test program uses a part")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) mod agent;
#[path = "../../../testing/commands.rs"]
mod commands;
#[path = "../../../testing/library.rs"]
mod library;

pub(crate) use commands::*;
pub(crate) use library::*;

const LIBRARY: &str = "libvipl";
const ARCHIVE: &str = "libvipl";
const VARIABLE: &str = "SOVIA_VIPL";

/// Compiles a C program with `-lvipl`. Its source is a file or a folder of files.
pub(crate) fn program(name: &str) -> PathBuf {
    let library = library();
    let program = folder().join(name);
    let place = library.parent().expect("a library lies in a folder");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-pedantic", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-Wno-unused-function", "-Wno-missing-field-initializers"])
        .arg("-I")
        .arg(include())
        .args(sources(name))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(place)
        .args(["-lvipl", "-pthread"])
        .arg(format!("-Wl,-rpath,{}", place.display()));
    run(&mut cc);
    program
}

/// Returns the source files of a C program: those in its folder, or the file with its name.
pub(crate) fn sources(name: &str) -> Vec<PathBuf> {
    let place = here().join("tests/c");
    let Ok(folder) = fs::read_dir(place.join(name)) else {
        return vec![place.join(format!("{name}.c"))];
    };
    let files = folder.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| path.extension() == Some(OsStr::new("c"))).collect()
}

/// Returns a command under a watchdog. With `valgrind`, errors that valgrind finds make the program fail.
pub(crate) fn watched(seconds: u32, valgrind: bool, program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &seconds.to_string()]).stdin(Stdio::null());
    if valgrind {
        command.args(["valgrind", "--quiet", "--error-exitcode=99", "--fair-sched=yes"]);
        command.arg("--leak-check=no");
    }
    command.arg(program);
    command
}
