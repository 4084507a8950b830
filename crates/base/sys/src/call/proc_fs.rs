//! What /proc lists, and its paths, written without allocating.
//!
//! What it has of "self" is what it has of the process's first thread. Where that has ended, it is asked for the calling one; not
//! always, since a profile of AppArmor's may allow the first path and not the other.

use super::file::stat;
use super::task::{getpid, is_without_first_thread};
use super::{Errno, RawFd, Result, Sysno, close, open, read};

/// The target of the symbolic link that `/proc` has for a descriptor; its length.
pub fn read_link(fd: RawFd, out: &mut [u8]) -> Result<usize> {
    by_path(OWN, fd, |path| sys!(readlinkat, libc::AT_FDCWD, path, out.as_mut_ptr(), out.len()))
}

/// Opens the file of a descriptor anew, by its path.
pub fn reopen(fd: RawFd, flags: i32) -> Result<RawFd> {
    by_path(OWN, fd, |path| sys!(openat, libc::AT_FDCWD, path, flags, 0)).map(|n| n as RawFd)
}

/// Opens what `/proc` says about a descriptor.
pub fn open_info(fd: RawFd) -> Result<RawFd> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    by_path(OWN_INFO, fd, |path| sys!(openat, libc::AT_FDCWD, path, flags)).map(|n| n as RawFd)
}

/// Calls `look` with the lines of a text, one after the other, until it finds something.
///
/// # Errors
/// Those of reading; `EINVAL` for a line of more than 8 KiB.
#[inline(never)] // Not in its callers' frames: the buffer is large.
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

/// A folder of a process, and the same of a thread.
type Own = [&'static core::ffi::CStr; 2];

/// Directories of the descriptors.
const OWN: Own = [c"/proc/self/fd", c"/proc/thread-self/fd"];
/// Directories of what /proc says about each.
const OWN_INFO: Own = [c"/proc/self/fdinfo", c"/proc/thread-self/fdinfo"];

/// Makes a call with the path that a folder has for a descriptor, which ends with a zero.
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

/// Where /proc says what memory the calling process has.
pub fn own_maps() -> &'static core::ffi::CStr {
    if is_without_first_thread(getpid()) { c"/proc/thread-self/maps" } else { c"/proc/self/maps" }
}

/// Calls `each` with every open descriptor of the calling process; false if /proc cannot say.
pub fn each_descriptor(each: impl FnMut(RawFd)) -> bool {
    let from = usize::from(is_without_first_thread(getpid()));
    each_number(OWN[from], true, each)
}

/// A path below /proc, with a null at its end.
type Path = [u8; 48];

/// A folder that /proc has of a process: its descriptors, or its threads. And where the path ends.
fn folder_of(pid: i32, folder: &[u8]) -> (Path, usize) {
    let (mut path, mut at): (Path, usize) = ([0; 48], 0);
    put(&mut path, &mut at, b"/proc/");
    put_number(&mut path, &mut at, pid.unsigned_abs());
    put(&mut path, &mut at, folder);
    (path, at)
}

/// Where a process's threads are.
pub(super) fn threads_of(pid: i32) -> Path {
    folder_of(pid, b"/task").0
}

fn descriptor_of(pid: i32, fd: RawFd) -> Path {
    let (mut path, mut at) = folder_of(pid, b"/fd");
    put(&mut path, &mut at, b"/");
    put_number(&mut path, &mut at, fd.unsigned_abs());
    path
}

/// Calls `each` with every open descriptor of another process; false if /proc cannot say, or this process may not look.
pub fn each_descriptor_of(pid: i32, each: impl FnMut(RawFd)) -> bool {
    let (path, _) = folder_of(pid, b"/fd");
    core::ffi::CStr::from_bytes_until_nul(&path)
        .is_ok_and(|path| each_number(path, pid == getpid(), each))
}

/// What a descriptor of another process is, as /proc names it.
pub fn read_link_of(pid: i32, fd: RawFd, out: &mut [u8]) -> Result<usize> {
    let path = descriptor_of(pid, fd);
    sys!(readlinkat, libc::AT_FDCWD, path.as_ptr(), out.as_mut_ptr(), out.len())
}

/// Device and inode of the file that a descriptor of another process is of. The file is not opened: to close it would give
/// back the record locks that this process may have on it.
pub fn file_id_of(pid: i32, fd: RawFd) -> Result<(u64, u64)> {
    let path = descriptor_of(pid, fd);
    let path = core::ffi::CStr::from_bytes_until_nul(&path).map_err(|_| Errno::ENAMETOOLONG)?;
    stat(path).map(|st| (st.st_dev, st.st_ino))
}

/// Opens the file anew that a descriptor of another process is of.
pub fn open_of(pid: i32, fd: RawFd, flags: i32) -> Result<RawFd> {
    let path = descriptor_of(pid, fd);
    sys!(openat, libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC).map(|fd| fd as RawFd)
}

/// Calls `each` with every thread of the calling process; false if /proc cannot say.
pub fn each_thread(each: impl FnMut(i32)) -> bool {
    each_number(c"/proc/self/task", false, each)
}

/// Calls `each` with every thread of another process; false if /proc cannot say.
pub fn each_thread_of(pid: i32, each: impl FnMut(i32)) -> bool {
    core::ffi::CStr::from_bytes_until_nul(&threads_of(pid))
        .is_ok_and(|path| each_number(path, false, each))
}

/// Calls `each` with every entry of a directory whose name is a number. Where these are the calling process's descriptors, that by
/// which the directory is read is left out.
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
        // Of each: inode and offset (8 bytes each), length of the whole (2), kind (1), name.
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
