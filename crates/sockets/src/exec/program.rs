//! The program that a process is about to execute.

use crate::{Errno, errno};
use core::ffi::CStr;
use smallvec::SmallVec;
use sovia_control::inheritance::Program;
use sovia_sys::{Fd, call, small_file};

/// Program that a process is about to execute.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// The program at this path, into which the library is loaded.
    Path(&'a CStr),
    /// The program with this name, which is searched in the given value of PATH. The library is loaded into the
    /// program.
    Name(&'a CStr, Option<&'a CStr>),
    /// The command `sovia` at this path, which passes the data of `leave` on to the program that it executes.
    Command(&'a CStr),
    /// A program that cannot take over connections, or that runs without Sovia.
    Unknown,
}

/// Returns the file that the kernel will execute for `target`. `None` if the library will not be loaded into this file,
/// or if this is not certain.
///
/// # Errors
/// The exec would fail with the same error.
pub(super) fn program_of(target: Target<'_>) -> Result<Option<Program>, Errno> {
    match target {
        Target::Path(path) => program_at(path),
        // Do not check that the library will be loaded, because the command may be linked statically.
        Target::Command(path) => Ok(call::program_at(path).ok().map(|(program, _)| program)),
        Target::Name(name, _) if name.to_bytes().contains(&b'/') => program_at(name),
        Target::Name(name, path) => {
            let path = path.map_or(&b"/bin:/usr/bin"[..], CStr::to_bytes);
            let found = path.split(|&byte| byte == b':').find_map(|directory| {
                let mut file: SmallVec<[u8; 256]> = directory.into();
                if !file.is_empty() {
                    file.push(b'/');
                }
                file.extend_from_slice(name.to_bytes_with_nul());
                let found = CStr::from_bytes_with_nul(&file).ok().map(program_at);
                found.filter(|found| *found != Err(libc::ENOENT))
            });
            match found.unwrap_or(Err(libc::ENOENT)) {
                // libc may find another file in a later directory.
                Err(error) if error != libc::ENOENT => Ok(None),
                found => found,
            }
        }
        Target::Unknown => Ok(None),
    }
}

/// Returns the file that the kernel executes for this path, if the library will be loaded into this file. For a
/// script, the file is the interpreter.
///
/// # Errors
/// The exec would fail with the same error.
fn program_at(path: &CStr) -> Result<Option<Program>, Errno> {
    let (program, is_plain) = call::program_at(path).map_err(errno)?;
    let mut room = [0; BEGINNING];
    let Some(beginning) = beginning_of(path, &mut room).filter(|_| is_plain) else {
        return Ok(None);
    };
    let Some(line) = beginning.strip_prefix(b"#!") else {
        return Ok(loads_libraries(beginning).then_some(program));
    };
    Ok(interpreter_of(line))
}

/// Returns the interpreter of a script whose first line begins with `line`, if the library will be loaded into it.
fn interpreter_of(line: &[u8]) -> Option<Program> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|&byte| byte == b' ' || byte == b'\t');
    let mut interpreter: SmallVec<[u8; 256]> = words.find(|word| !word.is_empty())?.into();
    interpreter.push(0);
    let path = CStr::from_bytes_with_nul(&interpreter).ok()?;
    let (program, is_plain) = call::program_at(path).ok()?;
    let mut room = [0; BEGINNING];
    let beginning = beginning_of(path, &mut room)?;
    (is_plain && loads_libraries(beginning)).then_some(program)
}

/// Number of bytes that are read from the beginning of a program.
const BEGINNING: usize = 1024;

fn beginning_of<'a>(path: &CStr, room: &'a mut [u8; BEGINNING]) -> Option<&'a [u8]> {
    let file = call::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0).map(Fd::keep).ok()?;
    let len = call::pread(file.raw(), room, 0).ok()?;
    Some(&room[..len])
}

/// Returns true if a file that begins with these bytes is a program for this machine with glibc's dynamic linker as its
/// ELF interpreter. This linker loads the libraries that LD_PRELOAD names. musl's linker cannot load the library.
fn loads_libraries(file: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let (machine, linker): (u16, &[u8]) = match cfg!(target_arch = "x86_64") {
        true => (62, b"/ld-linux-x86-64.so.2\0"),
        false => (183, b"/ld-linux-aarch64.so.1\0"),
    };
    let half = |at: usize| file.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let word = |at: usize| {
        let bytes = file.get(at..)?.first_chunk()?;
        usize::try_from(u64::from_le_bytes(*bytes)).ok()
    };
    let is_glibcs = || {
        let (first, size, count) = (word(32)?, usize::from(half(54)?), usize::from(half(56)?));
        let headers = (0..count).map(|n| first.saturating_add(n * size));
        let header = headers.take_while(|&at| at < file.len()).find(|&at| {
            let kind = file.get(at..).and_then(<[u8]>::first_chunk);
            kind.is_some_and(|kind| u32::from_le_bytes(*kind) == INTERPRETER)
        })?;
        let (at, len) = (word(header + 8)?, word(header + 32)?);
        Some(file.get(at..at.checked_add(len)?)?.ends_with(linker))
    };
    file.starts_with(b"\x7fELF\x02\x01")
        && half(18) == Some(machine)
        && is_glibcs().unwrap_or_default()
}

/// Returns true if the kernel may tell the dynamic linker of the next program to ignore LD_PRELOAD. It does so if this
/// process's real and effective ids differ, or if a security module gives the program other rights.
pub(super) fn may_ignore_environment() -> bool {
    // Without a security module, the file cannot be read. With AppArmor, it says if a profile confines this process.
    // With SELinux, each process has a label, and each program may get another label.
    let label = small_file::read(c"/proc/self/attr/current", 1 << 12).unwrap_or_default();
    let is_confined = !matches!(label.trim_ascii(), b"" | b"unconfined");
    let has_other_ids = call::getuid() != call::geteuid() || call::getgid() != call::getegid();
    is_confined || has_other_ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_load_libraries_are_told_from_others() {
        let found = |path: &CStr| program_of(Target::Path(path));
        assert!(matches!(found(c"/bin/sh"), Ok(Some(_))));
        assert_eq!(found(c"/etc/passwd"), Err(libc::EACCES));
        assert_eq!(found(c"/dev/null"), Err(libc::EACCES));
        assert_eq!(found(c"/nowhere"), Err(libc::ENOENT));
        assert_eq!(program_of(Target::Name(c"sh", None)), found(c"/bin/sh"));
        assert_eq!(program_of(Target::Name(c"no-such-program", None)), Err(libc::ENOENT));
        assert_eq!(program_of(Target::Unknown), Ok(None));
    }

    #[test]
    fn programs_of_other_linkers_do_not_load_the_library() {
        let mut room = [0; BEGINNING];
        let glibcs = beginning_of(c"/bin/sh", &mut room).unwrap().to_vec();
        assert!(loads_libraries(&glibcs));
        let at = glibcs.windows(9).position(|bytes| bytes == b"/ld-linux").unwrap();
        let mut other = glibcs.clone();
        other[at..at + 8].copy_from_slice(b"/ld-musl");
        assert!(!loads_libraries(&other));
        // No prefix or corrupt header makes the check panic.
        for len in 0..glibcs.len() {
            loads_libraries(&glibcs[..len]);
            let mut torn = glibcs.clone();
            torn[len] ^= 0xff;
            loads_libraries(&torn);
        }
    }
}
