//! Building C programs against the library, and running them.

#![allow(dead_code, reason = "each test program uses a part")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;
use std::{env, fs};

/// The crate's own folder.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of `vipl.h`.
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

/// The library: the one that `SOVIA_VIPL` names, or else what this very build has made, linked.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let place = folder().join("libvipl.so");
        match env::var_os("SOVIA_VIPL") {
            Some(made) => {
                fs::copy(&made, &place).unwrap_or_else(|e| panic!("{}: {e}", made.display()));
            }
            None => {
                run(Command::new(here().join("link")).args([&archive(), &place]));
            }
        }
        // By its soname, as an installed one is found.
        let soname = folder().join("libvipl.so.1");
        let _ = fs::remove_file(&soname);
        std::os::unix::fs::symlink("libvipl.so", soname).expect("a link to the library");
        place
    })
}

/// The newest `libvipl-….a` beside this test program.
pub(crate) fn archive() -> PathBuf {
    let own = env::current_exe().expect("a running program has a path");
    let made = |path: &PathBuf| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    fs::read_dir(own.parent().expect("programs lie in a folder"))
        .expect("a folder can be listed")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension() == Some(OsStr::new("a")))
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libvipl")))
        .max_by_key(made)
        .expect("cargo has made an archive of the library")
}

/// Compiles a C program, of one file or of a folder of them, with `-lvipl`.
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

/// The files of a program in C: a folder of its own, or one of its name.
pub(crate) fn sources(name: &str) -> Vec<PathBuf> {
    let place = here().join("tests/c");
    let Ok(folder) = fs::read_dir(place.join(name)) else {
        return vec![place.join(format!("{name}.c"))];
    };
    let files = folder.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| path.extension() == Some(OsStr::new("c"))).collect()
}

/// A command under a watchdog, maybe under valgrind as well, whose errors are then the program's.
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

/// Whether a test has to be left out for want of a program; says so.
pub(crate) fn skipped(test: &str, program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let there = env::split_paths(&path).any(|folder| folder.join(program).exists());
    if !there {
        println!("SKIPPED: {test}: not installed: {program}");
    }
    !there
}
