//! Building C programs against the library, and running them.

#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;
use std::{env, fs};

/// The crate's own folder.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of `sovia.h`.
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

/// The library: the one that `SOVIA_LIB` names, or else what this very build has made, linked.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let place = folder().join("libsovia.so");
        match env::var_os("SOVIA_LIB") {
            Some(made) => {
                fs::copy(&made, &place).unwrap_or_else(|e| panic!("{}: {e}", made.display()));
            }
            None => {
                run(Command::new(here().join("link")).args([&archive(), &place]));
            }
        }
        // By its soname, as an installed one is found.
        let soname = folder().join("libsovia.so.1");
        let _ = fs::remove_file(&soname);
        std::os::unix::fs::symlink("libsovia.so", soname).expect("a link to the library");
        place
    })
}

/// The newest `libsovia_c-….a` beside this test program.
pub(crate) fn archive() -> PathBuf {
    let own = env::current_exe().expect("a running program has a path");
    let made = |path: &PathBuf| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libsovia_c"))
    };
    fs::read_dir(own.parent().expect("programs lie in a folder"))
        .expect("a folder can be listed")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension() == Some(OsStr::new("a")) && named(path))
        .max_by_key(made)
        .expect("cargo has made an archive of the library")
}

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

/// Whether a test has to be left out for want of a program; says so.
pub(crate) fn skipped(test: &str, program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let there = env::split_paths(&path).any(|folder| folder.join(program).exists());
    if !there {
        println!("SKIPPED: {test}: not installed: {program}");
    }
    !there
}
