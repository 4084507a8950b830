//! The scenario programs, built once.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::workspace::{build_dir, tests_dir};

/// A scenario program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum App {
    /// `apps-c/NAME.c`
    C(&'static str),
    /// `apps-py/NAME.py`
    Python(&'static str),
}

impl App {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::C(name) | Self::Python(name) => name,
        }
    }

    /// The command that starts it, built first if need be.
    pub(crate) fn command(self) -> Vec<OsString> {
        match self {
            Self::C(name) => vec![build(name).into()],
            Self::Python(name) => {
                let script = tests_dir().join("apps-py").join(format!("{name}.py"));
                vec![python().into(), "-B".into(), "-u".into(), script.into()]
            }
        }
    }
}

/// The interpreter itself: what is first in the path may be a script around it.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let ask = ["-c", "import sys; print(sys.executable, end='')"];
        let told = Command::new("python3").args(ask).output().expect("python3 is installed");
        String::from_utf8(told.stdout).expect("paths of programs are text").into()
    })
}

/// Builds a C program unless it is newer than its sources. Test programs of one
/// run share the result; a file lock lets one of them build at a time.
fn build(name: &str) -> PathBuf {
    let sources = tests_dir().join("apps-c");
    let parts = [format!("{name}.c"), "common.c".into(), "bytes.c".into(), "common.h".into()];
    let parts = parts.map(|part| sources.join(part));
    let folder = build_dir();
    fs::create_dir_all(&folder).expect("a folder for built programs");
    let lock = File::create(folder.join("lock")).expect("a lock file");
    lock.lock().expect("the lock on built programs");
    let program = folder.join(name);
    let newest = parts.iter().map(|part| changed(part)).max().flatten();
    assert!(newest.is_some(), "no program {name} in {}", sources.display());
    if changed(&program) < newest {
        let fresh = folder.join(format!("{name}.new"));
        let compiled = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-pthread"])
            .args(&parts[..3])
            .arg("-o")
            .arg(&fresh)
            .status()
            .expect("a C compiler named cc");
        assert!(compiled.success(), "{} does not compile", parts[0].display());
        fs::rename(&fresh, &program).expect("the built program moves into place");
    }
    program
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|about| about.modified()).ok()
}
