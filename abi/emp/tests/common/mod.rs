//! Builds C programs with the library, and runs them.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "../../../testing/commands.rs"]
mod commands;
#[path = "../../../testing/library.rs"]
mod library;

pub(crate) use commands::*;
pub(crate) use library::*;

const LIBRARY: &str = "libsovia-emp";
const ARCHIVE: &str = "libsovia_emp_c";
const VARIABLE: &str = "SOVIA_EMP";

/// Compiles a C program of this crate, with `-lsovia-emp`.
pub(crate) fn program(source: &str, compiler: &str, standard: &str) -> PathBuf {
    let library = library();
    let name = Path::new(source).file_stem().expect("a source has a name").to_string_lossy();
    let program = folder().join(format!("{name}-{standard}"));
    let place = library.parent().expect("a library lies in a folder");
    let mut command = Command::new(compiler);
    command.arg(format!("-std={standard}")).args(["-D_GNU_SOURCE", "-pedantic", "-O1", "-g"]);
    command.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(include());
    if compiler.ends_with("++") {
        command.args(["-x", "c++"]);
    }
    command.arg(here().join(source)).args(["-x", "none", "-o"]).arg(&program);
    command.arg("-L").arg(place).args(["-lsovia-emp", "-pthread"]);
    run(command.arg(format!("-Wl,-rpath,{}", place.display())));
    program
}

/// Returns a command that `timeout` ends if it hangs.
pub(crate) fn watched(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120"]).arg(program).stdin(Stdio::null());
    command
}
