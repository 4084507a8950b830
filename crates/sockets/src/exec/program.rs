//! The program that a process is about to execute.

use crate::{Errno, errno};
use core::ffi::CStr;
use memchr::memmem;
use smallvec::SmallVec;
use sovia_sys::mapping::Room;
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

/// Returns true if the program will load the library, and will make its calls through it.
///
/// # Errors
/// The exec would fail with the same error.
pub(super) fn loads_library(target: Target<'_>) -> Result<bool, Errno> {
    match target {
        Target::Path(path) => file_loads_library(path),
        // Do not check that the library will be loaded, because the command may be linked statically.
        Target::Command(path) => Ok(call::program_at(path).is_ok()),
        Target::Name(name, _) if name.to_bytes().contains(&b'/') => file_loads_library(name),
        Target::Name(name, path) => {
            let path = path.map_or(&b"/bin:/usr/bin"[..], CStr::to_bytes);
            let found = path.split(|&byte| byte == b':').find_map(|directory| {
                let mut file: SmallVec<[u8; 256]> = directory.into();
                if !file.is_empty() {
                    file.push(b'/');
                }
                file.extend_from_slice(name.to_bytes_with_nul());
                let found = CStr::from_bytes_with_nul(&file).ok().map(file_loads_library);
                found.filter(|found| *found != Err(libc::ENOENT))
            });
            match found.unwrap_or(Err(libc::ENOENT)) {
                // libc may find another file in a later directory.
                Err(error) if error != libc::ENOENT => Ok(false),
                found => found,
            }
        }
        Target::Unknown => Ok(false),
    }
}

/// Returns true if the program at this path will load the library. For a script, this is the interpreter.
///
/// # Errors
/// The exec would fail with the same error.
fn file_loads_library(path: &CStr) -> Result<bool, Errno> {
    let (_, is_plain) = call::program_at(path).map_err(errno)?;
    if !is_plain || !call::may_execute(path) {
        return Ok(false);
    }
    let mut room = [0; BEGINNING];
    let Some(beginning) = beginning_of(path, &mut room) else { return Ok(false) };
    match beginning.strip_prefix(b"#!") {
        Some(line) => Ok(interpreter_loads_library(line).unwrap_or_default()),
        None => Ok(loads_libraries(beginning) && !has_own_ways(path)),
    }
}

/// Returns true if the interpreter of a script will load the library. The script's first line begins with `line`.
fn interpreter_loads_library(line: &[u8]) -> Option<bool> {
    /// Number of bytes of a script that the kernel reads (`BINPRM_BUF_SIZE`), without `#!`.
    const LINE_MAX: usize = 256 - 2;
    let end = line.iter().take(LINE_MAX).position(|&byte| byte == b'\n')?;
    let mut words = line[..end].split(|&byte| byte == b' ' || byte == b'\t');
    let mut interpreter: SmallVec<[u8; 256]> = words.find(|word| !word.is_empty())?.into();
    interpreter.push(0);
    let path = CStr::from_bytes_with_nul(&interpreter).ok()?;
    let (_, is_plain) = call::program_at(path).ok()?;
    let mut room = [0; BEGINNING];
    let beginning = beginning_of(path, &mut room)?;
    let loads = is_plain && call::may_execute(path) && loads_libraries(beginning);
    Some(loads && !has_own_ways(path))
}

/// Number of bytes that are read from the beginning of a program.
const BEGINNING: usize = 1024;

fn beginning_of<'a>(path: &CStr, room: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = call::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0).map(Fd::keep).ok()?;
    let len = call::pread(file.raw(), room, 0).ok()?;
    Some(&room[..len])
}

/// Returns true if a file that begins with these bytes is a program for this machine with glibc's dynamic linker as its
/// ELF interpreter. This linker loads the libraries that LD_PRELOAD names. musl's linker cannot load the library.
fn loads_libraries(file: &[u8]) -> bool {
    file.starts_with(b"\x7fELF\x02\x01")
        && half(file, 18) == Some(MACHINE)
        && linker_of(file).is_some_and(|linker| {
            linker.to_bytes().ends_with(LINKER) && call::file_at(linker).is_ok()
        })
}

const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
const LINKER: &[u8] = match cfg!(target_arch = "x86_64") {
    true => b"/ld-linux-x86-64.so.2",
    false => b"/ld-linux-aarch64.so.1",
};

fn half(file: &[u8], at: usize) -> Option<u16> {
    file.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn word(file: &[u8], at: usize) -> Option<usize> {
    let bytes = file.get(at..)?.first_chunk()?;
    usize::try_from(u64::from_le_bytes(*bytes)).ok()
}

/// Returns the path of the ELF interpreter (PT_INTERP) of the program `file`.
fn linker_of(file: &[u8]) -> Option<&CStr> {
    const INTERPRETER: u32 = 3;
    let (size, count) = (usize::from(half(file, 54)?), usize::from(half(file, 56)?));
    let first = word(file, 32)?;
    let headers = (0..count).map(|n| first.saturating_add(n * size));
    let header = headers.take_while(|&at| at < file.len()).find(|&at| {
        let kind = file.get(at..).and_then(<[u8]>::first_chunk);
        kind.is_some_and(|kind| u32::from_le_bytes(*kind) == INTERPRETER)
    })?;
    let (at, len) = (word(file, header + 8)?, word(file, header + 32)?);
    CStr::from_bytes_with_nul(file.get(at..at.checked_add(len)?)?).ok()
}

/// Returns true if a program makes its own system calls or has its own plan of the address space. Go programs make
/// system calls without libc. The runtimes of some sanitizers take the addresses that the library needs.
fn has_own_ways(path: &CStr) -> bool {
    /// Number of bytes in which the marks lie: the program's notes and its dynamic symbols.
    const SEARCHED: usize = 256 << 10;
    const SANITIZERS: [&[u8]; 2] = [b"__tsan_init\0", b"__msan_init\0"];
    /// Name of Go's ELF notes. The length of the name precedes it by 12 bytes.
    const GO: &[u8] = b"Go\0\0";
    let Ok(mut room) = Room::new(SEARCHED) else { return true };
    let Some(file) = beginning_of(path, &mut room) else { return true };
    let is_a_note = |at: usize| {
        let len = at.checked_sub(12).and_then(|at| file.get(at..at + 4));
        len == Some(&(GO.len() as u32).to_le_bytes()[..])
    };
    memmem::find_iter(file, GO).any(is_a_note)
        || SANITIZERS.iter().any(|mark| memmem::find(file, mark).is_some())
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

    /// Returns the path of this test's program, which glibc's linker of this machine loads. A program of the system may
    /// be for another machine, as under an emulator.
    fn own_program() -> std::ffi::CString {
        let path = std::env::current_exe().unwrap().into_os_string().into_encoded_bytes();
        std::ffi::CString::new(path).unwrap()
    }

    #[test]
    fn programs_that_load_libraries_differ_from_others() {
        let found = |path: &CStr| loads_library(Target::Path(path));
        assert_eq!(found(&own_program()), Ok(true));
        assert_eq!(found(c"/etc/passwd"), Err(libc::EACCES));
        assert_eq!(found(c"/dev/null"), Err(libc::EACCES));
        assert_eq!(found(c"/nowhere"), Err(libc::ENOENT));
        assert_eq!(loads_library(Target::Name(c"sh", None)), found(c"/bin/sh"));
        assert_eq!(loads_library(Target::Name(c"no-such-program", None)), Err(libc::ENOENT));
        assert_eq!(loads_library(Target::Unknown), Ok(false));
    }

    #[test]
    fn a_script_loads_what_its_interpreter_loads() {
        let line = [b" ", own_program().to_bytes(), b" -e\n"].concat();
        assert_eq!(interpreter_loads_library(&line), Some(true));
        assert_eq!(interpreter_loads_library(b"/nowhere\n"), None);
        // The kernel does not execute a script with a longer first line.
        let mut long = b"/bin/sh ".to_vec();
        long.extend([b'x'; 250]);
        long.push(b'\n');
        assert_eq!(interpreter_loads_library(&long), None);
    }

    #[test]
    fn marks_show_programs_with_their_own_ways() {
        let folder = std::env::temp_dir().join(format!("sovia-marks-{}", call::getpid()));
        let has = |bytes: &[u8]| {
            std::fs::write(&folder, bytes).unwrap();
            let path = std::ffi::CString::new(folder.to_str().unwrap()).unwrap();
            let found = has_own_ways(&path);
            std::fs::remove_file(&folder).unwrap();
            found
        };
        assert!(has(b"...\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0..."));
        assert!(!has(b"...\x05\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0..."));
        assert!(!has(b"Go\0\0"));
        assert!(has(b"\0__tsan_init\0"));
        assert!(!has(b"\0__tsan_initial\0"));
    }

    #[test]
    fn programs_of_other_linkers_do_not_load_the_library() {
        let mut room = [0; BEGINNING];
        let glibcs = beginning_of(&own_program(), &mut room).unwrap().to_vec();
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
