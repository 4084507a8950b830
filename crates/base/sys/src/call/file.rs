//! Operations on files: their bytes, size and kind.

use super::{RawFd, Result, Sysno};
use crate::UserSliceMut;

/// Reads into `buf` and returns the number of bytes read.
pub fn read(fd: RawFd, buf: &mut [u8]) -> Result<usize> {
    sys!(read, fd, buf.as_mut_ptr(), buf.len())
}

/// Writes from `buf` and returns the number of bytes written.
pub fn write(fd: RawFd, buf: &[u8]) -> Result<usize> {
    sys!(write, fd, buf.as_ptr(), buf.len())
}

/// Reads at `offset` without moving the file position.
pub fn pread(fd: RawFd, buf: &mut [u8], offset: i64) -> Result<usize> {
    sys!(pread64, fd, buf.as_mut_ptr(), buf.len(), offset)
}

/// Reads bytes that the kernel has in memory, so that the call does not wait for a device (`RWF_NOWAIT`). Without an
/// `offset`, reads at the file position and moves it.
///
/// # Errors
/// `EAGAIN` if the bytes are not in memory; `EOPNOTSUPP` if the file cannot be read like this.
pub fn read_cached(fd: RawFd, out: UserSliceMut<'_>, offset: Option<i64>) -> Result<usize> {
    let piece = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    // On 64-bit machines the fourth argument holds the whole offset.
    let offset = offset.unwrap_or(-1);
    sys!(preadv2, fd, &raw const piece, 1usize, offset, 0usize, libc::RWF_NOWAIT)
}

/// Writes two slices one after the other, at `offset`.
pub fn pwrite_both(fd: RawFd, first: &[u8], second: &[u8], offset: i64) -> Result<usize> {
    let piece =
        |buf: &[u8]| libc::iovec { iov_base: buf.as_ptr().cast_mut().cast(), iov_len: buf.len() };
    let pieces = [piece(first), piece(second)];
    // On 64-bit machines the fourth argument holds the whole offset.
    sys!(pwritev, fd, pieces.as_ptr(), pieces.len(), offset, 0usize)
}

/// Moves the file position (`lseek`).
pub fn seek(fd: RawFd, offset: i64, whence: i32) -> Result<usize> {
    sys!(lseek, fd, offset, whence)
}

/// Opens a path.
pub fn open(path: &core::ffi::CStr, flags: i32, mode: u32) -> Result<RawFd> {
    sys!(openat, libc::AT_FDCWD, path.as_ptr(), flags, mode).map(|n| n as RawFd)
}

/// Creates a memory file. `name` appears only in `/proc`.
pub fn memfd_create(name: &core::ffi::CStr, flags: u32) -> Result<RawFd> {
    sys!(memfd_create, name.as_ptr(), flags).map(|n| n as RawFd)
}

/// Sets a file's size.
pub fn ftruncate(fd: RawFd, len: u64) -> Result<()> {
    sys!(ftruncate, fd, len).map(drop)
}

/// Returns the status of the descriptor's file.
fn status(fd: RawFd) -> Result<libc::stat> {
    // SAFETY: all-zero bytes are a valid stat, which is a plain C struct.
    let mut st: libc::stat = unsafe { core::mem::zeroed() };
    sys!(fstat, fd, &raw mut st)?;
    Ok(st)
}

/// Returns a file's size in bytes.
pub fn file_size(fd: RawFd) -> Result<u64> {
    Ok(status(fd)?.st_size as u64)
}

/// Returns the user id of the owner of the descriptor's file.
pub fn file_owner(fd: RawFd) -> Result<u32> {
    Ok(status(fd)?.st_uid)
}

/// Returns device and inode of the descriptor's file.
pub fn file_id(fd: RawFd) -> Result<(u64, u64)> {
    status(fd).map(|st| (st.st_dev, st.st_ino))
}

/// Returns the status of the file that a path leads to.
pub(super) fn stat(path: &core::ffi::CStr) -> Result<libc::stat> {
    stat_with(path, 0)
}

/// Returns the result of fstatat for a path, with these flags.
fn stat_with(path: &core::ffi::CStr, flags: i32) -> Result<libc::stat> {
    // SAFETY: all-zero bytes are a valid stat, which is a plain C struct.
    let mut st: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the path ends with a zero, the structure has the kernel's layout, and both outlive the call.
    unsafe { syscalls::syscall!(FSTATAT, libc::AT_FDCWD, path.as_ptr(), &raw mut st, flags) }?;
    Ok(st)
}

#[cfg(target_arch = "x86_64")]
const FSTATAT: super::Sysno = super::Sysno::newfstatat;
#[cfg(not(target_arch = "x86_64"))]
const FSTATAT: super::Sysno = super::Sysno::fstatat;

/// Returns true if a path names an entry, which may be a symbolic link. Does not follow the link.
pub fn is_there(path: &core::ffi::CStr) -> bool {
    stat_with(path, libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT).is_ok()
}

/// Returns device and inode of the file that a path leads to.
pub fn file_at(path: &core::ffi::CStr) -> Result<(u64, u64)> {
    stat(path).map(|st| (st.st_dev, st.st_ino))
}

/// Returns true if this process may execute the file that a path leads to. This depends on the process's effective
/// ids, and on the mount (`noexec`).
pub fn may_execute(path: &core::ffi::CStr) -> bool {
    sys!(faccessat2, libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS).is_ok()
}

/// Returns device and inode of the executable file that a path leads to. Also returns whether a process that
/// executes the file keeps its user, group and capabilities.
pub fn program_at(path: &core::ffi::CStr) -> Result<((u64, u64), bool)> {
    let st = stat(path)?;
    if st.st_mode & libc::S_IFMT != libc::S_IFREG || st.st_mode & 0o111 == 0 {
        return Err(super::Errno::EACCES);
    }
    let none = core::ptr::null_mut::<u8>();
    let capabilities = c"security.capability".as_ptr();
    let has_some = sys!(getxattr, path.as_ptr(), capabilities, none, 0usize).is_ok();
    let is_plain = st.st_mode & (libc::S_ISUID | libc::S_ISGID) == 0 && !has_some;
    Ok(((st.st_dev as u64, st.st_ino as u64), is_plain))
}

/// Returns the type of the descriptor's file system (`statfs.f_type`).
pub fn file_system(fd: RawFd) -> Result<i64> {
    // SAFETY: all-zero bytes are a valid statfs, which is a plain C struct.
    let mut st: libc::statfs = unsafe { core::mem::zeroed() };
    sys!(fstatfs, fd, &raw mut st)?;
    Ok(st.f_type)
}

/// Returns true if the descriptor is a block device or a regular file, from which `sendfile` can read. Returns
/// false for files whose content the kernel makes at each read, such as in /proc. `sendfile` refuses some of
/// those.
pub fn is_plain_file(fd: RawFd) -> Result<bool> {
    Ok(match status(fd)?.st_mode & libc::S_IFMT {
        libc::S_IFREG => !is_made_when_read(fd)?,
        kind => kind == libc::S_IFBLK,
    })
}

/// Returns true if the file lies on a file system whose files the kernel fills at each read.
fn is_made_when_read(fd: RawFd) -> Result<bool> {
    const TRACEFS: u64 = 0x7472_6163;
    const DEBUGFS: u64 = 0x6462_6720;
    let kind = file_system(fd)? as u64;
    Ok([libc::PROC_SUPER_MAGIC as u64, TRACEFS, DEBUGFS].contains(&kind))
}

/// Reads the target of a symbolic link into `out`, and returns its length.
pub(crate) fn read_link_at(path: &core::ffi::CStr, out: &mut [u8]) -> Result<usize> {
    sys!(readlinkat, libc::AT_FDCWD, path.as_ptr(), out.as_mut_ptr(), out.len())
}
