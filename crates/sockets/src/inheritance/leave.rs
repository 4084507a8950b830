//! Leaves data about inherited connections to the program that this process executes.

use super::take::is_alone;
use crate::conn::{Conn, Holding};
use crate::members::LocksToLeave;
use crate::table::{self, Ref};
use crate::{Errno, family, process};
use core::ffi::CStr;
use core::sync::atomic::Ordering;
use smallvec::SmallVec;
use sovia_control::inheritance::{
    CONNECTIONS_MAX, FILES_FROM, Head, Inheritance, Inherited, LEN, NUMBERS, Passed, Program,
};
use sovia_sys::Fd;
use sovia_sys::call;

/// Program that a process is about to execute.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// The program at this path, into which the library is loaded.
    Path(&'a CStr),
    /// The program with this name, which is searched in the given value of PATH. The library is loaded into the
    /// program.
    Name(&'a CStr, Option<&'a CStr>),
    /// The command `sovia` at this path, which passes the inheritance on to the program that it executes.
    Command(&'a CStr),
    /// A program that cannot get an inheritance, or that runs without Sovia.
    Unknown,
}

/// Result of `leave`. If the exec fails, the caller drops this object, which undoes the call of `leave`.
#[derive(Debug, Default)]
#[must_use]
pub struct Left {
    handed: SmallVec<[&'static Conn; 4]>,
    _files: Option<Files>,
}

/// Files that stay open across the exec, so that the new program finds them.
#[derive(Debug)]
struct Files {
    _inheritance: Fd,
    _records: Fd,
    _locks: LocksToLeave,
}

/// Descriptors, each with its connection.
pub(crate) type Descriptors = SmallVec<[(i32, Ref); 4]>;

/// Prepares an exec: leaves the new program the records of the connections that it inherits. `target` names the
/// program, and is called only if there may be a record to leave.
///
/// # Errors
/// `ENOENT` if the program inherits connections and does not exist. The exec would fail with the same error.
pub(crate) fn leave<'a>(
    inherited: &Descriptors,
    target: impl FnOnce() -> Target<'a>,
) -> Result<Left, Errno> {
    let mut left = Left::default();
    if inherited.is_empty() || has_left() {
        return Ok(left);
    }
    let target = if family::file().is_some() { target() } else { Target::Unknown };
    if let Target::Path(path) = target
        && call::program_at(path) == Err(call::Errno::ENOENT)
    {
        return Err(libc::ENOENT);
    }
    if process::has_shared() {
        // A child that runs on this process's memory may have its own descriptors of the connections, and no record
        // names such a child. So leave no inheritance.
        spread(inherited);
        return Ok(left);
    }
    let told = hand(inherited, &mut left);
    // Leave an inheritance only if it names every descriptor of the connections. Leave none if the program inherits
    // an epoll instance, because the program does not know which connections the instance watches.
    if !told.is_empty()
        && told.len() <= CONNECTIONS_MAX
        && !inherits_sets()
        && let Some(program) = program_of(target)
    {
        left._files = files(program, &told);
    }
    Ok(left)
}

/// Records that another program gets these connections. Returns the connections that the program may put on a VI.
fn hand(inherited: &Descriptors, left: &mut Left) -> Descriptors {
    let mut told = Descriptors::new();
    for &(fd, at) in inherited {
        if !left.handed.iter().any(|conn| core::ptr::eq(*conn, at.conn)) {
            left.handed.push(at.conn);
            if at.conn.hand() && may_be_on_vi(fd, at) {
                told.push((fd, at));
            }
        } else if told.iter().any(|(_, other)| other.same(at)) {
            told.push((fd, at));
        }
    }
    told
}

/// Records that unknown processes may get these connections. Called before this process starts a program that
/// inherits them.
pub(crate) fn spread(inherited: &Descriptors) {
    if !has_left() {
        inherited.iter().for_each(|(_, at)| at.conn.spread());
    }
}

/// Returns true if this process is under seccomp. Then this process has already given up its connections, and its
/// family's records show that.
fn has_left() -> bool {
    process::is_confined()
}

/// Records that this process has taken `fd` from another process. If `fd` is a connection of the family, the
/// family's records no longer name all processes that hold the connection.
pub fn taken(fd: i32) {
    if let Ok(cookie) = sovia_sys::diag::cookie(fd) {
        family::each_conn(|conn| {
            if conn.cookie.load(Ordering::Relaxed) == cookie {
                conn.spread();
            }
        });
    }
}

/// Records that a child will run on this process's memory. The child has all descriptors of this process, but no
/// record names the child. Called before the child is made, unless the child ends at once.
pub(crate) fn shares_memory() {
    table::for_each_conn(|_, at| at.conn.spread());
    process::shares_memory();
}

impl Drop for Left {
    fn drop(&mut self) {
        self.handed.iter().for_each(|conn| conn.take_back());
    }
}

/// Returns the descriptors of connections that a program inherits from this process.
pub(crate) fn inherited() -> Descriptors {
    let mut inherited = Descriptors::new();
    if process::is_borrowed() {
        table::for_each_conn_elsewhere(|fd, at| {
            if outlasts_exec(fd) && table::is_socket_of(fd, at.conn) {
                inherited.push((fd, at));
            }
        });
    } else {
        table::for_each_conn_if(outlasts_exec, |fd, at| inherited.push((fd, at)));
    }
    inherited
}

fn outlasts_exec(fd: i32) -> bool {
    let flags = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC as usize);
    flags & libc::FD_CLOEXEC as usize == 0
}

/// Returns true if the program inherits an epoll instance.
fn inherits_sets() -> bool {
    let mut inherits = false;
    table::for_each_epoll(|fd, _| inherits |= outlasts_exec(fd));
    inherits
}

/// Returns true if a connection may get a VI in another program.
pub(super) fn may_be_on_vi(fd: i32, at: Ref) -> bool {
    at.conn.phase().may_be_on_vi() && is_alone(fd, at) && family::place_in_file(at.index).is_some()
}

/// Returns the file that the kernel will execute for `target`.
fn program_of(target: Target<'_>) -> Option<Program> {
    match target {
        Target::Path(path) => program_at(path),
        // Do not check that the library will be loaded, because the command may be linked statically.
        Target::Command(path) => call::program_at(path).ok().map(|(program, _)| program),
        Target::Name(name, _) if name.to_bytes().contains(&b'/') => program_at(name),
        Target::Name(name, path) => {
            let path = path.map_or(&b"/bin:/usr/bin"[..], CStr::to_bytes);
            let found = path.split(|&byte| byte == b':').find_map(|directory| {
                let mut file: SmallVec<[u8; 256]> = directory.into();
                if !file.is_empty() {
                    file.push(b'/');
                }
                file.extend_from_slice(name.to_bytes_with_nul());
                let is_there = |path: &&CStr| call::program_at(path) != Err(call::Errno::ENOENT);
                CStr::from_bytes_with_nul(&file).ok().filter(is_there).map(program_at)
            });
            found?
        }
        Target::Unknown => None,
    }
}

/// Returns the file that the kernel executes for this path, if the library will be loaded into this file. For a
/// script, the file is the interpreter.
fn program_at(path: &CStr) -> Option<Program> {
    let mut room = [0; BEGINNING];
    let (program, beginning) = look_into(path, &mut room)?;
    let Some(line) = beginning.strip_prefix(b"#!") else {
        return is_dynamic(beginning).then_some(program);
    };
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|&byte| byte == b' ' || byte == b'\t');
    let mut interpreter: SmallVec<[u8; 256]> = words.find(|word| !word.is_empty())?.into();
    interpreter.push(0);
    let mut room = [0; BEGINNING];
    let (program, beginning) = look_into(CStr::from_bytes_with_nul(&interpreter).ok()?, &mut room)?;
    is_dynamic(beginning).then_some(program)
}

/// Number of bytes that are read from the beginning of a program.
const BEGINNING: usize = 1024;

fn look_into<'a>(path: &CStr, room: &'a mut [u8; BEGINNING]) -> Option<(Program, &'a [u8])> {
    let (program, is_plain) = call::program_at(path).ok()?;
    let file = call::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0).map(Fd::keep).ok()?;
    let len = call::pread(file.raw(), room, 0).ok()?;
    is_plain.then_some((program, &room[..len]))
}

/// Returns true if a file that begins with these bytes is a program for this machine with an ELF interpreter, which
/// loads libraries.
fn is_dynamic(file: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let machine = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let half = |at: usize| file.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let headers = || {
        let first = usize::from(half(32)?);
        let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
        Some((0..count).map_while(move |i| file.get(first + i * size..)?.first_chunk::<4>()))
    };
    file.starts_with(b"\x7fELF\x02\x01")
        && half(18) == Some(machine)
        && headers().is_some_and(|mut all| all.any(|kind| u32::from_le_bytes(*kind) == INTERPRETER))
}

/// Makes the files that the program takes over. Returns `None` if one of them cannot be made.
fn files(program: Program, connections: &[(i32, Ref)]) -> Option<Files> {
    if call::soft_limit(libc::RLIMIT_FSIZE).is_some_and(|limit| limit < LEN as u64) {
        // Do not write a file beyond this process's limit for file sizes: the kernel would kill the process with a
        // signal.
        return None;
    }
    let records = records()?;
    let (_, inode) = call::file_id(records.raw()).ok()?;
    let locks = LocksToLeave::new(process::is_borrowed())?;
    let mut inheritance = Inheritance::new(Head {
        pid: call::getpid(),
        program,
        layout: Holding::LAYOUT,
        records: Passed { fd: records.raw(), inode },
        locks: locks.passed(),
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

/// Returns a new, read-only descriptor of the family's records, for the program.
fn records() -> Option<Fd> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let opened = call::reopen(family::file()?, flags).map(Fd::keep).ok()?;
    let high = Fd::duplicate(opened.raw(), FILES_FROM).ok()?;
    high.outlasts_exec(true);
    Some(high)
}
