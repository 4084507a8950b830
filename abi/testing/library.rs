//! The library under test, as its C programs find it. Part of the test programs of each C interface,
//! which say in `LIBRARY`, `ARCHIVE` and `VARIABLE` what it is called.

use super::{ARCHIVE, LIBRARY, VARIABLE};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;
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

/// The library: the one that [`VARIABLE`] names, or else what this very build has made, linked.
pub(crate) fn library() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let name = format!("{LIBRARY}.so");
        let place = folder().join(&name);
        match env::var_os(VARIABLE) {
            Some(made) => {
                fs::copy(&made, &place).unwrap_or_else(|e| panic!("{}: {e}", made.display()));
            }
            None => {
                run(Command::new(here().join("link")).args([&archive(), &place]));
            }
        }
        // By its soname, as an installed one is found.
        let soname = folder().join(format!("{name}.1"));
        let _ = fs::remove_file(&soname);
        std::os::unix::fs::symlink(name, soname).expect("a link to the library");
        place
    })
}

/// The newest archive of it beside this test program.
pub(crate) fn archive() -> PathBuf {
    let own = env::current_exe().expect("a running program has a path");
    let made = |path: &PathBuf| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(ARCHIVE))
    };
    fs::read_dir(own.parent().expect("programs lie in a folder"))
        .expect("a folder can be listed")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension() == Some(OsStr::new("a")) && named(path))
        .max_by_key(made)
        .expect("cargo has made an archive of the library")
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
