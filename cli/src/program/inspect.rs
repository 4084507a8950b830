//! Checks before a program runs whether it will load the library by LD_PRELOAD.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::elf::Elf;
use super::{lookup, privilege};

/// Number of bytes that the kernel reads for a `#!` line.
const SCRIPT_LINE_BYTES_MAX: usize = 256;
/// Number of nested interpreters that the kernel follows.
const SCRIPT_DEPTH_MAX: usize = 5;
/// Interpreter that execvp, and so `sovia run`, uses for a script without `#!`.
const SHELL: &str = "/bin/sh";

/// Facts about a program.
#[derive(Debug, Default)]
pub struct Findings {
    /// Reason why the program's connections will stay on TCP.
    pub obstacle: Option<Obstacle>,
    /// Dynamic linker of a program that loads the library, or of its interpreter.
    pub linker: Option<PathBuf>,
    /// Interpreter that the program needs and that does not exist.
    pub missing: Option<PathBuf>,
    /// True for a script that names no interpreter.
    pub is_bare_script: bool,
}

/// Reason why a program's connections stay on TCP, and the file with the cause: the program itself or its interpreter.
#[derive(Debug)]
pub struct Obstacle {
    file: PathBuf,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Static {
        go: bool,
    },
    /// A dynamic executable whose network calls do not go through libc.
    Go,
    Foreign,
    OtherLibc(PathBuf),
    Privileged(&'static str),
}

impl Obstacle {
    /// Returns true if LD_PRELOAD may name the library for programs that this program starts. Otherwise the dynamic
    /// linker would complain, refuse to start, or ignore the library.
    pub fn tolerates_library(&self) -> bool {
        matches!(self.kind, Kind::Static { .. } | Kind::Go)
    }

    /// Returns one line for the user of the program at `path`.
    pub fn line(&self, path: &Path) -> String {
        if self.file == path {
            format!("{} {}", path.display(), self.kind)
        } else {
            format!("{}: its interpreter {} {}", path.display(), self.file.display(), self.kind)
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static { go } => {
                let go = if *go { " (a Go program)" } else { "" };
                write!(
                    f,
                    "is statically linked{go}: connections of this program stay on TCP; connections of programs that it starts can leave TCP"
                )
            }
            Self::Go => {
                write!(
                    f,
                    "is a Go program: connections of Go code stay on TCP; connections of C code can leave TCP"
                )
            }
            Self::Foreign => write!(f, "is for another kind of processor, and runs on plain TCP"),
            Self::OtherLibc(interpreter) => {
                write!(f, "uses {} instead of glibc, and runs on plain TCP", interpreter.display())
            }
            Self::Privileged(how) => {
                write!(
                    f,
                    "is {how}, so the system loads no library into this program, which runs on plain TCP"
                )
            }
        }
    }
}

/// Inspects the program at `path`. A file that cannot be read has no findings: executing it shows any fault.
pub fn inspect(path: &Path) -> Findings {
    inspect_to_depth(path, 0)
}

fn inspect_to_depth(path: &Path, depth: usize) -> Findings {
    let Ok(file) = File::open(path) else {
        // The file may be executable without being readable, and still be setuid.
        return blame(path, privilege::gained(path).map(Kind::Privileged));
    };
    if let Some(elf) = Elf::read(&file) {
        return inspect_elf(path, &elf);
    }
    let start = beginning(&file);
    match Shebang::parse(&start) {
        Some(_) if depth == SCRIPT_DEPTH_MAX => Findings::default(),
        Some(shebang) => inspect_interpreter(&shebang, depth),
        None if start.starts_with(b"\x7fELF") => Findings::default(),
        None => Findings {
            is_bare_script: true,
            ..inspect_to_depth(Path::new(SHELL), SCRIPT_DEPTH_MAX)
        },
    }
}

/// Returns the interpreter of the script at `path`. Returns `None` for other programs and for unreadable files.
pub fn interpreter_of(path: &Path) -> Option<PathBuf> {
    let file = File::open(path).ok()?;
    Shebang::parse(&beginning(&file)).map(|shebang| shebang.interpreter)
}

/// Returns the part of a file that the kernel searches for a `#!` line.
fn beginning(file: &File) -> Vec<u8> {
    let mut start = vec![0; SCRIPT_LINE_BYTES_MAX];
    let len = file.read_at(&mut start, 0).unwrap_or(0);
    start.truncate(len);
    start
}

fn inspect_elf(path: &Path, elf: &Elf) -> Findings {
    let privileged = privilege::gained(path).map(Kind::Privileged);
    let Some(interpreter) = &elf.interpreter else {
        // The dynamic linker, run as a program, has no interpreter but obeys LD_PRELOAD.
        let is_linker = is_glibc_linker(path);
        return blame(path, privileged.or((!is_linker).then_some(Kind::Static { go: elf.go })));
    };
    let kind = if elf.is_foreign() {
        Some(Kind::Foreign)
    } else if !is_glibc_linker(interpreter) {
        Some(Kind::OtherLibc(interpreter.clone()))
    } else {
        privileged.or(elf.go.then_some(Kind::Go))
    };
    Findings {
        linker: kind.is_none().then(|| interpreter.clone()),
        missing: (!interpreter.exists()).then(|| interpreter.clone()),
        ..blame(path, kind)
    }
}

fn inspect_interpreter(shebang: &Shebang, depth: usize) -> Findings {
    let interpreter = &shebang.interpreter;
    if !interpreter.exists() {
        return Findings { missing: Some(interpreter.clone()), ..Findings::default() };
    }
    let findings = inspect_to_depth(interpreter, depth + 1);
    if findings.obstacle.is_some() || interpreter.file_name() != Some(OsStr::new("env")) {
        return findings;
    }
    // For `#!/usr/bin/env python3`, the relevant program is the one that env starts. If it is missing, env reports
    // this.
    match shebang.program_of_env().and_then(|name| lookup::find(&name).ok()) {
        Some(program) => Findings {
            missing: None,
            ..inspect_to_depth(&program, (depth + 1).min(SCRIPT_DEPTH_MAX))
        },
        None => findings,
    }
}

fn blame(path: &Path, kind: Option<Kind>) -> Findings {
    let obstacle = kind.map(|kind| Obstacle { file: path.to_owned(), kind });
    Findings { obstacle, ..Findings::default() }
}

/// Returns true if the file name is that of a glibc linker: `ld-linux*.so.*`, `ld64.so.*`, or `ld.so.1` on old ports.
fn is_glibc_linker(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    [b"ld-linux".as_slice(), b"ld64.so.", b"ld.so.1"].iter().any(|start| name.starts_with(start))
}

/// The first line of a script.
#[derive(Debug, PartialEq, Eq)]
struct Shebang {
    interpreter: PathBuf,
    /// The rest of the line, which the kernel passes as one argument.
    argument: OsString,
}

impl Shebang {
    fn parse(start: &[u8]) -> Option<Self> {
        let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
        let line = line.trim_ascii();
        let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
        let (interpreter, argument) = line.split_at(end);
        if interpreter.is_empty() {
            return None;
        }
        let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some(Self {
            interpreter: owned(interpreter).into(),
            argument: owned(argument.trim_ascii()),
        })
    }

    /// Returns the program that `env` starts with this argument, which contains several words if `-S` is given.
    fn program_of_env(&self) -> Option<OsString> {
        let words = self.argument.as_bytes().split(|byte| b" \t".contains(byte));
        let word = words
            .map(|word| word.strip_prefix(b"-S").unwrap_or(word))
            .find(|word| !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'='))?;
        Some(OsString::from_vec(word.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shebang(text: &str) -> Option<(String, String)> {
        let parsed = Shebang::parse(text.as_bytes())?;
        Some((parsed.interpreter.to_str()?.into(), parsed.argument.to_str()?.into()))
    }

    #[test]
    fn first_lines_are_read_as_the_kernel_reads_them() {
        assert_eq!(shebang("#!/bin/sh\necho"), Some(("/bin/sh".into(), "".into())));
        assert_eq!(shebang("#! /bin/sh  -e x \n"), Some(("/bin/sh".into(), "-e x".into())));
        assert_eq!(shebang("#!/bin/sh"), Some(("/bin/sh".into(), "".into())));
        assert_eq!(shebang("#!\n/bin/sh"), None);
        assert_eq!(shebang("echo #!/bin/sh"), None);
    }

    #[test]
    fn env_starts_the_first_word_that_is_no_option() {
        let program = |line: &str| {
            Shebang::parse(line.as_bytes())
                .unwrap()
                .program_of_env()
                .map(|name| name.into_string().unwrap())
        };
        assert_eq!(program("#!/usr/bin/env python3"), Some("python3".into()));
        assert_eq!(program("#!/usr/bin/env -S -i A=b node --x"), Some("node".into()));
        assert_eq!(program("#!/usr/bin/env -Snode --x"), Some("node".into()));
        assert_eq!(program("#!/usr/bin/env"), None);
    }

    #[test]
    fn linkers_are_known_by_name() {
        assert!(is_glibc_linker(Path::new("/lib64/ld-linux-x86-64.so.2")));
        assert!(is_glibc_linker(Path::new("/lib/ld-linux-aarch64.so.1")));
        assert!(is_glibc_linker(Path::new("/lib64/ld64.so.2")));
        assert!(!is_glibc_linker(Path::new("/lib/ld-musl-x86_64.so.1")));
        assert!(!is_glibc_linker(Path::new("/system/bin/linker64")));
    }
}
