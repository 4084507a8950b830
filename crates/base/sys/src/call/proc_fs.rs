//! Lists and paths of /proc, without allocation.
//!
//! /proc shows for "self" the data of the process's first thread. If this thread has ended, the functions here
//! use the path of the calling thread. In other cases the functions do not, because an AppArmor profile may allow
//! only `/proc/self`.

use super::file::stat;
use super::task::{getpid, is_without_first_thread};
use super::{Errno, RawFd, Result, Sysno, close, open, read};

/// Reads the target of a descriptor's symbolic link in `/proc`, and returns its length.
pub fn read_link(fd: RawFd, out: &mut [u8]) -> Result<usize> {
    by_path(OWN, fd, |path| sys!(readlinkat, libc::AT_FDCWD, path, out.as_mut_ptr(), out.len()))
}

/// Opens the descriptor's file again, by its path in /proc.
pub fn reopen(fd: RawFd, flags: i32) -> Result<RawFd> {
    by_path(OWN, fd, |path| sys!(openat, libc::AT_FDCWD, path, flags, 0)).map(|n| n as RawFd)
}

/// Opens the `fdinfo` file of a descriptor.
pub fn open_info(fd: RawFd) -> Result<RawFd> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    by_path(OWN_INFO, fd, |path| sys!(openat, libc::AT_FDCWD, path, flags)).map(|n| n as RawFd)
}

/// Calls `look` with each line of a text until `look` finds something.
///
/// # Errors
/// Those of reading; `EINVAL` for a line of more than 8 KiB.
#[inline(never)] // Keeps the large buffer out of the callers' stack frames.
pub fn find_line<T>(file: RawFd, mut look: impl FnMut(&[u8]) -> Option<T>) -> Result<Option<T>> {
    let mut buffer = [0u8; 8192];
    let mut held = 0;
    loop {
        let got = read(file, &mut buffer[held..])?;
        if got == 0 {
            return Ok(None);
        }
        held += got;
        let mut from = 0;
        while let Some(end) = buffer[from..held].iter().position(|&byte| byte == b'\n') {
            if let Some(found) = look(&buffer[from..from + end]) {
                return Ok(Some(found));
            }
            from += end + 1;
        }
        if from == 0 && held == buffer.len() {
            return Err(Errno::EINVAL);
        }
        buffer.copy_within(from..held, 0);
        held -= from;
    }
}

/// Folder of the process, and the same folder of the calling thread.
type Own = [&'static core::ffi::CStr; 2];

/// Folders of the descriptors.
const OWN: Own = [c"/proc/self/fd", c"/proc/thread-self/fd"];
/// Folders of the `fdinfo` files.
const OWN_INFO: Own = [c"/proc/self/fdinfo", c"/proc/thread-self/fdinfo"];

/// Calls `call` with the path of a descriptor in this folder. The path ends with a zero.
fn by_path(
    own: Own,
    fd: RawFd,
    mut call: impl FnMut(*const core::ffi::c_char) -> Result<usize>,
) -> Result<usize> {
    let mut of = |folder: &core::ffi::CStr| {
        let mut path = [0u8; 40];
        let mut at = 0;
        put(&mut path, &mut at, folder.to_bytes());
        put(&mut path, &mut at, b"/");
        put_number(&mut path, &mut at, fd.unsigned_abs());
        call(path.as_ptr().cast())
    };
    match of(own[0]) {
        Err(Errno::ENOENT) if is_without_first_thread(getpid()) => of(own[1]),
        done => done,
    }
}

/// Returns the path of the calling process's list of mappings.
pub fn own_maps() -> &'static core::ffi::CStr {
    if is_without_first_thread(getpid()) { c"/proc/thread-self/maps" } else { c"/proc/self/maps" }
}

/// Calls `each` with every open descriptor of the calling process. Returns false if /proc cannot list them.
pub fn each_descriptor(each: impl FnMut(RawFd)) -> bool {
    let from = usize::from(is_without_first_thread(getpid()));
    each_number(OWN[from], true, each)
}

/// A path below /proc, which ends with a zero.
type Path = [u8; 48];

/// Returns the path of a process's folder in /proc, such as its descriptors or threads, and the path's length.
fn folder_of(pid: i32, folder: &[u8]) -> (Path, usize) {
    let (mut path, mut at): (Path, usize) = ([0; 48], 0);
    put(&mut path, &mut at, b"/proc/");
    put_number(&mut path, &mut at, pid.unsigned_abs());
    put(&mut path, &mut at, folder);
    (path, at)
}

/// Returns the path of the folder that lists a process's threads.
pub(super) fn threads_of(pid: i32) -> Path {
    folder_of(pid, b"/task").0
}

fn descriptor_of(pid: i32, fd: RawFd) -> Path {
    let (mut path, mut at) = folder_of(pid, b"/fd");
    put(&mut path, &mut at, b"/");
    put_number(&mut path, &mut at, fd.unsigned_abs());
    path
}

/// Calls `each` with every open descriptor of process `pid`. Returns false if /proc cannot list them, or if this
/// process must not look.
pub fn each_descriptor_of(pid: i32, each: impl FnMut(RawFd)) -> bool {
    let (path, _) = folder_of(pid, b"/fd");
    core::ffi::CStr::from_bytes_until_nul(&path)
        .is_ok_and(|path| each_number(path, pid == getpid(), each))
}

/// Reads the name that /proc gives to the object of another process's descriptor, and returns the name's length.
pub fn read_link_of(pid: i32, fd: RawFd, out: &mut [u8]) -> Result<usize> {
    let path = descriptor_of(pid, fd);
    sys!(readlinkat, libc::AT_FDCWD, path.as_ptr(), out.as_mut_ptr(), out.len())
}

/// Returns device and inode of the file of another process's descriptor. Does not open the file: a close would
/// release the record locks that this process may have on the file.
pub fn file_id_of(pid: i32, fd: RawFd) -> Result<(u64, u64)> {
    let path = descriptor_of(pid, fd);
    let path = core::ffi::CStr::from_bytes_until_nul(&path).map_err(|_| Errno::ENAMETOOLONG)?;
    stat(path).map(|st| (st.st_dev, st.st_ino))
}

/// Opens the file of another process's descriptor again.
pub fn open_of(pid: i32, fd: RawFd, flags: i32) -> Result<RawFd> {
    let path = descriptor_of(pid, fd);
    sys!(openat, libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC).map(|fd| fd as RawFd)
}

/// Calls `each` with every thread of the calling process. Returns false if /proc cannot list them.
pub fn each_thread(each: impl FnMut(i32)) -> bool {
    each_number(c"/proc/self/task", false, each)
}

/// Returns the number of the calling process's threads, or 0 if /proc does not tell it. Counts threads that are just
/// ending.
pub fn thread_count() -> usize {
    // The folder has a link for each thread, besides `.` and `..`.
    stat(c"/proc/self/task").map_or(0, |st| (st.st_nlink as usize).saturating_sub(2))
}

/// Calls `each` with every thread of process `pid`. Returns false if /proc cannot list them.
pub fn each_thread_of(pid: i32, each: impl FnMut(i32)) -> bool {
    core::ffi::CStr::from_bytes_until_nul(&threads_of(pid))
        .is_ok_and(|path| each_number(path, false, each))
}

/// Calls `each` with every entry of a directory whose name is a number. `own_descriptors`: the entries are the
/// calling process's descriptors. Then the descriptor that reads the directory is left out.
fn each_number(path: &core::ffi::CStr, own_descriptors: bool, mut each: impl FnMut(i32)) -> bool {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let Ok(directory) = open(path, flags, 0) else { return false };
    let mut entries = [0u8; 1024];
    let mut whole = true;
    loop {
        let n = match sys!(getdents64, directory, entries.as_mut_ptr(), entries.len()) {
            Ok(0) => break,
            Ok(n) => n,
            Err(_) => {
                whole = false;
                break;
            }
        };
        let mut rest = &entries[..n];
        // Each entry has inode and offset (8 bytes each), the entry's length (2), the kind (1) and the name.
        while let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, low, high, _, name @ ..] = rest {
            let mut number = 0;
            let mut digits = name.iter().take_while(|c| c.is_ascii_digit()).peekable();
            if digits.peek().is_some() {
                for digit in digits {
                    number = number * 10 + i32::from(digit - b'0');
                }
                if !own_descriptors || number != directory {
                    each(number);
                }
            }
            let len = usize::from(u16::from_ne_bytes([*low, *high]));
            match rest.get(len..) {
                Some(next) if len > 0 => rest = next,
                _ => break,
            }
        }
    }
    let _ = close(directory);
    whole
}

pub(crate) fn put(out: &mut [u8], at: &mut usize, bytes: &[u8]) {
    out[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

pub(crate) fn put_number(out: &mut [u8], at: &mut usize, mut n: u32) {
    let mut digits = [0u8; 10];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    put(out, at, &digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn threads_are_counted_as_they_are_listed() {
        const MORE: usize = 5;
        let (begun, over) = (Barrier::new(MORE + 1), Barrier::new(MORE + 1));
        std::thread::scope(|s| {
            for _ in 0..MORE {
                s.spawn(|| {
                    begun.wait();
                    over.wait();
                });
            }
            begun.wait();
            // Other tests may start and end threads between two of these calls.
            let is_listed = || {
                let (before, mut listed) = (thread_count(), 0);
                assert!(each_thread(|_| listed += 1));
                before == listed && listed > MORE
            };
            while !is_listed() {}
            over.wait();
        });
    }
}
