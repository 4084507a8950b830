//! Record locks, which the kernel holds for a process as long as the process lives.
//!
//! A record lock belongs to the process and not to a descriptor. Children do not inherit the lock. The kernel
//! releases it at exec, at death, and when the process closes any descriptor of the file.

use crate::call::{RawFd, Result, Sysno};

fn lock_of(kind: i32, byte: u64) -> libc::flock {
    // SAFETY: all-zero bytes are a valid flock, which is a plain C struct.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte as libc::off_t;
    lock.l_len = 1;
    lock
}

fn ask(fd: RawFd, command: i32, lock: &mut libc::flock) -> Result<()> {
    // SAFETY: `lock` is borrowed for writing and outlives the call.
    unsafe { syscalls::syscall!(Sysno::fcntl, fd, command, core::ptr::from_mut(lock)) }.map(drop)
}

/// Takes the lock on a byte without waiting.
///
/// # Errors
/// `EAGAIN` if another process holds the lock; other errors if the descriptor is invalid.
pub fn take(fd: RawFd, byte: u64) -> Result<()> {
    ask(fd, libc::F_SETLK, &mut lock_of(libc::F_WRLCK, byte))
}

/// Takes the lock on a byte for the open file behind the descriptor, rather than for this process. The lock lasts
/// until no process has a descriptor of this open file. So a child and an executed program keep it.
///
/// # Errors
/// `EAGAIN` if another open file or process holds the lock; other errors if the descriptor is invalid.
pub fn take_for_file(fd: RawFd, byte: u64) -> Result<()> {
    ask(fd, libc::F_OFD_SETLK, &mut lock_of(libc::F_WRLCK, byte))
}

/// Releases a lock that was taken by [`take_for_file`].
///
/// # Errors
/// Those of `fcntl`, if the descriptor is invalid.
pub fn give_back_for_file(fd: RawFd, byte: u64) -> Result<()> {
    ask(fd, libc::F_OFD_SETLK, &mut lock_of(libc::F_UNLCK, byte))
}

/// Returns true if another process holds the lock on a byte.
///
/// # Errors
/// Those of `fcntl`, if the descriptor is invalid.
pub fn is_held(fd: RawFd, byte: u64) -> Result<bool> {
    let mut lock = lock_of(libc::F_WRLCK, byte);
    ask(fd, libc::F_GETLK, &mut lock)?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}
