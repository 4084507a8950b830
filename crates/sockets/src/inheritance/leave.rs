//! What a process that becomes another program leaves to it.

use super::take::is_alone;
use crate::conn::{Conn, flag};
use crate::members::LocksToLeave;
use crate::table::{self, Ref};
use crate::{family, process};
use core::ffi::CStr;
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_control::inheritance::{FILES_FROM, Head, Inheritance, Inherited, NUMBERS, Program};
use sovia_sys::Fd;
use sovia_sys::call;

/// What a process is about to become.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// The program at that path.
    Path(&'a CStr),
    /// The program with that name, which is looked for in PATH.
    Name(&'a CStr, Option<&'a CStr>),
    /// The program that is open under that number.
    Open(i32),
    /// One that cannot be told, or that runs without Sovia.
    Unknown,
}

/// What has been left. To be dropped where the process has not become the program.
#[derive(Debug, Default)]
#[must_use]
pub struct Left {
    handed: Vec<&'static Conn>,
    _files: Option<Files>,
}

/// The descriptors that the program is to find.
#[derive(Debug)]
struct Files {
    _inheritance: Fd,
    _records: Fd,
    _locks: LocksToLeave,
}

/// This process is about to become another program: tells it of the connections that it inherits.
pub(crate) fn leave(target: Target<'_>) -> Left {
    let inherited = inherited();
    let mut left = Left::default();
    let mut alone = Vec::new();
    for &(fd, at) in &inherited {
        let is_known = left.handed.iter().any(|conn| core::ptr::eq(*conn, at.conn));
        if !is_known {
            let is_first = at.conn.hand();
            left.handed.push(at.conn);
            if !is_first || !may_be_on_vi_again(at) {
                continue;
            }
        } else if !alone.iter().any(|(_, other): &(i32, Ref)| other.same(at)) {
            continue;
        }
        alone.push((fd, at));
    }
    if !alone.is_empty()
        && let Some(program) = program_of(target)
    {
        left._files = files(program, &alone);
    }
    left
}

/// This process is about to start another program, which inherits its connections.
pub(crate) fn spread() {
    for (_, at) in inherited() {
        at.conn.spread();
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.handed.iter().for_each(|conn| conn.take_back());
    }
}

/// The descriptors of connections that another program inherits of this process.
fn inherited() -> Vec<(i32, Ref)> {
    let mut inherited = Vec::new();
    if process::is_confined() {
        // Its connections stay on TCP, whatever becomes of them.
        return inherited;
    }
    let look = |fd, at: Ref| {
        let flags = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC as usize);
        if flags & libc::FD_CLOEXEC as usize == 0 {
            inherited.push((fd, at));
        }
    };
    if process::is_borrowed() {
        table::for_each_conn_elsewhere(|_| true, look);
    } else {
        table::for_each_conn(look);
    }
    inherited
}

/// Whether a connection could get a VI in another program: it is a candidate, or was until an exec that failed.
fn may_be_on_vi_again(at: Ref) -> bool {
    let conn = at.conn;
    // The two ends meet once.
    !conn.has(flag::MET)
        && is_alone(at)
        && (conn.phase().may_be_on_vi() || conn.stays_for() == Some(Reason::RetreatExec))
        && family::place_in_file(at.index).is_some()
}

/// Which file the process becomes.
fn program_of(target: Target<'_>) -> Option<Program> {
    match target {
        Target::Path(path) => program_at(path),
        Target::Open(fd) => call::file_id(fd).ok(),
        Target::Name(name, _) if name.to_bytes().contains(&b'/') => program_at(name),
        Target::Name(name, path) => {
            let path = path.map_or(&b"/bin:/usr/bin"[..], CStr::to_bytes);
            path.split(|&byte| byte == b':').find_map(|directory| {
                let mut file = directory.to_vec();
                if !file.is_empty() {
                    file.push(b'/');
                }
                file.extend_from_slice(name.to_bytes_with_nul());
                program_at(CStr::from_bytes_with_nul(&file).ok()?)
            })
        }
        Target::Unknown => None,
    }
}

/// Which file the kernel executes for that path: the interpreter of a script.
fn program_at(path: &CStr) -> Option<Program> {
    const LINE: usize = 256;
    let program = call::file_id_of(path).ok()?;
    let Ok(file) = call::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0).map(Fd::keep) else {
        return Some(program);
    };
    let mut line = [0; LINE];
    let len = call::pread(file.raw(), &mut line[..LINE - 1], 0).unwrap_or(0);
    let Some(line) = line[..len].strip_prefix(b"#!") else { return Some(program) };
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|&byte| byte == b' ' || byte == b'\t');
    let mut interpreter = words.find(|word| !word.is_empty())?.to_vec();
    interpreter.push(0);
    call::file_id_of(CStr::from_bytes_with_nul(&interpreter).ok()?).ok()
}

/// The files for the program; `None` where there is something that they cannot be had for.
fn files(program: Program, connections: &[(i32, Ref)]) -> Option<Files> {
    let records = records()?;
    let locks = LocksToLeave::new(process::is_borrowed())?;
    let mut inheritance = Inheritance::new(Head {
        pid: call::getpid(),
        program,
        layout: crate::conn::Holding::LAYOUT,
        records: records.raw(),
        locks: locks.raw(),
    });
    for &(fd, at) in connections {
        inheritance.add(Inherited {
            fd,
            is_connector: at.conn.is_connector(),
            index: at.index,
            generation: at.conn.generation(),
            cookie: at.conn.cookie.load(Ordering::Relaxed),
        });
    }
    let made = Fd::keep(call::memfd_create(c"sovia-inheritance", libc::MFD_CLOEXEC).ok()?);
    let bytes = inheritance.encode();
    if call::pwrite_both(made.raw(), &bytes, &[], 0) != Ok(bytes.len()) {
        return None;
    }
    let number = call::fcntl(made.raw(), libc::F_DUPFD, NUMBERS.start as usize).ok()?;
    let inheritance = Fd::keep(number as i32);
    NUMBERS.contains(&inheritance.raw()).then_some(Files {
        _inheritance: inheritance,
        _records: records,
        _locks: locks,
    })
}

/// The file with the family's records, which the program may read and not change.
fn records() -> Option<Fd> {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut at = 14;
    let number = family::file()?;
    let mut scale = 1_000_000_000;
    while scale > 0 {
        let digit = number / scale % 10;
        if digit != 0 || at > 14 || scale == 1 {
            path[at] = b'0' + digit as u8;
            at += 1;
        }
        scale /= 10;
    }
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let opened = call::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0).map(Fd::keep).ok()?;
    let high = Fd::duplicate(opened.raw(), FILES_FROM).ok()?;
    high.outlasts_exec(true);
    Some(high)
}
