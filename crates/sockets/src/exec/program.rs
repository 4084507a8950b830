//! The program that a process is about to execute.

use core::ffi::CStr;
use smallvec::SmallVec;
use sovia_control::inheritance::Program;
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
    /// The command `sovia` at this path, which passes the data of `leave` on to the program that it executes.
    Command(&'a CStr),
    /// A program that cannot take over connections, or that runs without Sovia.
    Unknown,
}

/// Returns the file that the kernel will execute for `target`.
pub(super) fn program_of(target: Target<'_>) -> Option<Program> {
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
