//! Compiling C programs and running them. Part of the unit tests and the test programs of each C interface.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

/// The crate's own folder.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of its header.
pub(crate) fn include() -> PathBuf {
    here().join("../../include")
}

/// A fresh folder for what this test program builds, beside itself.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let own = env::current_exe().expect("a running program has a path");
        let folder = own.with_extension("built");
        fs::create_dir_all(&folder).expect("a folder for built programs");
        folder
    })
}

/// A command that must succeed; what it prints.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out
}

/// Compiles a C program by a compiler that has its flags, runs the program, and returns what it prints.
#[track_caller]
pub(crate) fn printed_by(compiler: &mut Command, source: &Path, name: &str) -> String {
    let program = folder().join(name);
    run(compiler.arg(source).arg("-o").arg(&program));
    run(&mut Command::new(program))
}

/// Returns the folder of what `make build` makes.
pub(crate) fn release() -> PathBuf {
    // target/debug/deps/PROGRAM
    let own = env::current_exe().expect("a running program has a path");
    own.ancestors().nth(3).expect("programs lie in folders").join("release")
}

/// Returns true if a program is missing that a test needs, and prints that the test is skipped.
pub(crate) fn skipped(test: &str, program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let there = env::split_paths(&path).any(|folder| folder.join(program).exists());
    if !there {
        println!("SKIPPED: {test}: not installed: {program}");
    }
    !there
}
