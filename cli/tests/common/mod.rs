//! A folder for small C programs, and `sovia run` with a stand-in for the library that only counts.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Source of the stand-in for the library. It reports that it was loaded, and counts on the run's page.
const LIBRARY: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void) {
    if (getenv("SAY_LOADED")) {
        ssize_t ignored = write(2, "[loaded]", 8);
        (void)ignored;
    }
    const char *path = getenv("SOVIA_STATS");
    if (!path)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    uint64_t *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED && memcmp(page, "SOVIASTA", 8) == 0)
        __atomic_fetch_add(&page[2], 1, __ATOMIC_RELAXED);
}
"#;

/// A folder that is removed when the value is dropped.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// Makes a folder that contains only the library.
    pub(crate) fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        assert!(bench.cc("preload.so", LIBRARY, &["-shared", "-fPIC"]), "a C compiler is needed");
        bench
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles `source`. Returns false if the compiler cannot.
    pub(crate) fn cc(&self, name: &str, source: &str, flags: &[&str]) -> bool {
        let file = self.path(&format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let mut cc = Command::new("cc");
        let output = cc.arg(&file).args(flags).arg("-o").arg(self.path(name)).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Writes a file with these permissions.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Returns the command `sovia run` with the stand-in for the library, without arguments.
    pub(crate) fn sovia(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sovia"));
        command.arg("run").current_dir(self.folder.path());
        command.env("SOVIA_PRELOAD", self.path("preload.so")).env("SAY_LOADED", "1");
        for name in ["LD_PRELOAD", "SOVIA_RULES", "SOVIA_STATS"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs a program under `sovia run` to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Said {
        Said::from(self.sovia().args(args).output().unwrap())
    }
}

/// Exit status and output of a program.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: std::process::ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { status: output.status, out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Said {
    /// Returns the exit status.
    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("no exit status: {self:?}"))
    }

    /// Returns how often the library was loaded.
    pub(crate) fn loads(&self) -> usize {
        self.err.matches("[loaded]").count()
    }
}

/// Prints that a test could not run, in the form that the test script counts.
pub(crate) fn skipped(name: &str, why: &str) {
    println!("SKIPPED: {name}: {why}");
}

/// Returns true if a program is in PATH.
pub(crate) fn is_there(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).exists())
    })
}
