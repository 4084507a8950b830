//! Scenario programs, each built once.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::pairing::Stack;
use crate::workspace::{build_dir, libsovia, tests_dir};

/// A scenario program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum App {
    /// `apps-c/NAME.c`, with `apps-c/NAME_thrown.cc` if there is one
    C(&'static str),
    /// A C program as above, built with AddressSanitizer.
    Sanitized(&'static str),
    /// `apps-py/NAME.py`
    Python(&'static str),
}

impl App {
    /// Returns the program's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::C(name) | Self::Sanitized(name) | Self::Python(name) => name,
        }
    }

    /// Returns the command that starts the program. Builds the program first if necessary.
    ///
    /// # Panics
    /// If a script should run on libsovia.
    pub(crate) fn command(self, stack: Stack) -> Vec<OsString> {
        match self {
            Self::C(name) if stack == Stack::Native => vec![build(name, Form::Native).into()],
            Self::C(name) => vec![build(name, Form::Libc).into()],
            Self::Sanitized(name) => vec![build(name, Form::Sanitized).into()],
            Self::Python(name) if stack == Stack::Native => panic!("{name} is a script"),
            Self::Python(name) => {
                let script = tests_dir().join("apps-py").join(format!("{name}.py"));
                vec![python().into(), "-B".into(), "-u".into(), script.into()]
            }
        }
    }

    /// Returns the files that decide the program's output over the kernel. Builds the program first
    /// if necessary.
    pub(crate) fn files(self) -> Vec<PathBuf> {
        match self {
            Self::C(name) => vec![build(name, Form::Libc)],
            Self::Sanitized(name) => vec![build(name, Form::Sanitized)],
            Self::Python(name) => {
                let scripts = tests_dir().join("apps-py");
                vec![scripts.join(format!("{name}.py")), scripts.join("common.py"), python().into()]
            }
        }
    }
}

/// Builds `apps-c/NAME.c` and returns the program, for a test that starts it in its own way.
pub fn c_program(name: &str) -> PathBuf {
    build(name, Form::Libc)
}

/// Like `c_program`, but builds against libsovia, which the program finds in its build folder.
pub fn native_c_program(name: &str) -> PathBuf {
    build(name, Form::Native)
}

/// Like `native_c_program`, but builds into `folder`. Adds a library with the source `library`, which is linked with
/// libsovia too.
pub fn native_c_program_with_library(name: &str, library: &str, folder: &Path) -> PathBuf {
    let (sources, include) = (tests_dir().join("apps-c"), tests_dir().join("../include"));
    let (source, linked) = (folder.join("own.c"), folder.join("libown.so"));
    fs::write(&source, library).expect("a source");
    let cc = |arguments: &[&OsStr], to: &Path| {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-I"]).arg(&include).args(arguments).arg("-o").arg(to);
        let compiled = cc.args(against(&libsovia())).status().expect("a C compiler named cc");
        assert!(compiled.success(), "{} does not compile", to.display());
    };
    cc(&["-shared".as_ref(), "-fPIC".as_ref(), source.as_os_str()], &linked);
    let parts = ["native.h", &format!("{name}.c"), "common.c", "bytes.c"];
    let parts = parts.map(|part| sources.join(part));
    let [header, parts @ ..] = parts.each_ref().map(|part| part.as_os_str());
    let mut rpath = OsString::from("-Wl,-rpath,");
    rpath.push(folder);
    let program = folder.join(name);
    let with = ["-Wl,--no-as-needed".as_ref(), linked.as_os_str(), &rpath];
    cc(&[&["-include".as_ref(), header][..], &parts[..], &with[..]].concat(), &program);
    program
}

/// Form in which a C program is built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Libc,
    /// Against libsovia: `native.h` renames its calls.
    Native,
    Sanitized,
}

/// Returns the interpreter itself. The first `python3` in the path may be a script around it.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let ask = ["-c", "import sys; print(sys.executable, end='')"];
        let told = Command::new("python3").args(ask).output().expect("python3 is installed");
        String::from_utf8(told.stdout).expect("paths of programs are text").into()
    })
}

/// Builds a C program unless it is newer than its sources. Test programs of one
/// run share the result; a file lock lets one of them build at a time. With
/// `SOVIA_TESTS_APPS`, returns the program in that folder and builds none.
fn build(name: &str, form: Form) -> PathBuf {
    if let (Form::Libc, Some(folder)) = (form, env::var_os("SOVIA_TESTS_APPS")) {
        return PathBuf::from(folder).join(name);
    }
    let native = form == Form::Native;
    let sources = tests_dir().join("apps-c");
    let parts = ["common.c", "bytes.c", "common.h", "native.h", "heirs.h", "converse.h"];
    let mut parts: Vec<PathBuf> = parts.iter().map(|part| sources.join(part)).collect();
    parts.insert(0, sources.join(format!("{name}.c")));
    parts.push(sources.join(format!("{name}_library.c")));
    let thrown = sources.join(format!("{name}_thrown.cc"));
    parts.push(thrown.clone());
    let include = tests_dir().join("../include");
    parts.extend(native.then(|| include.join("sovia.h")));
    let folder = build_dir().join(match form {
        Form::Libc => "libc",
        Form::Native => "native",
        Form::Sanitized => "sanitized",
    });
    fs::create_dir_all(&folder).expect("a folder for built programs");
    let lock = File::create(folder.join("lock")).expect("a lock file");
    lock.lock().expect("the lock on built programs");
    let program = folder.join(name);
    let newest = parts.iter().map(|part| changed(part)).max().flatten();
    assert!(newest.is_some(), "no program {name} in {}", sources.display());
    if changed(&program) < newest {
        let fresh = folder.join(format!("{name}.new"));
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-pthread"]);
        if form == Form::Sanitized {
            cc.args(["-g", "-fsanitize=address"]);
        }
        if native {
            cc.arg("-include").arg(&parts[4]).arg("-I").arg(&include);
        }
        cc.args(&parts[..3]).arg("-o").arg(&fresh);
        if thrown.exists() {
            cc.arg(&thrown).arg("-lstdc++");
        }
        if native {
            cc.args(against(&libsovia()));
        }
        let compiled = cc.status().expect("a C compiler named cc");
        assert!(compiled.success(), "{} does not compile", parts[0].display());
        build_library(name, &sources, &folder);
        fs::rename(&fresh, &program).expect("the built program moves into place");
    }
    program
}

/// Builds `apps-c/NAME_library.c`, if there is one, for a program that opens it. The functions that the library
/// calls are looked up at their first call (`NAME.lazy.so`), or when the library is loaded (`NAME.now.so`).
fn build_library(name: &str, sources: &Path, folder: &Path) {
    let source = sources.join(format!("{name}_library.c"));
    if !source.exists() {
        return;
    }
    for when in ["lazy", "now"] {
        let mut cc = Command::new("cc");
        cc.args([
            "-O1",
            "-Wall",
            "-Wextra",
            "-shared",
            "-fPIC",
            &format!("-Wl,-z,relro,-z,{when}"),
        ]);
        cc.arg(&source).arg("-o").arg(folder.join(format!("{name}.{when}.so")));
        assert!(cc.status().expect("a C compiler named cc").success(), "{}", source.display());
    }
}

/// Returns options that link a program with a library in its present folder.
fn against(library: &Path) -> [OsString; 3] {
    let folder = library.parent().expect("a library lies in a folder").as_os_str();
    let with = |option: &str| {
        let mut word = OsString::from(option);
        word.push(folder);
        word
    };
    [with("-L"), "-lsovia".into(), with("-Wl,-rpath,")]
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|about| about.modified()).ok()
}
