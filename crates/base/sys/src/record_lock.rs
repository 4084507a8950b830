//! Record locks: the kernel holds them for a process as long as that lives.
//!
//! They are the process's, not a descriptor's: children do not inherit them, exec and death give them
//! back, and so does closing any descriptor of the file.

use crate::call::{RawFd, Result, Sysno};

fn lock_of(kind: i32, byte: u64) -> libc::flock {
    // SAFETY: an all-zero flock is a valid value of a plain C struct.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte as libc::off_t;
    lock.l_len = 1;
    lock
}

fn ask(fd: RawFd, command: i32, lock: &mut libc::flock) -> Result<()> {
    // SAFETY: the structure is live and writable for the call.
    unsafe { syscalls::syscall!(Sysno::fcntl, fd, command, core::ptr::from_mut(lock)) }.map(drop)
}

/// Takes the lock on a byte.
///
/// # Errors
/// `EAGAIN` if another process holds it; those of a descriptor that is gone.
pub fn take(fd: RawFd, byte: u64) -> Result<()> {
    ask(fd, libc::F_SETLK, &mut lock_of(libc::F_WRLCK, byte))
}

/// The same, and waits for it.
///
/// # Errors
/// `EINTR` for a signal; those of a descriptor that is gone.
pub fn wait(fd: RawFd, byte: u64) -> Result<()> {
    ask(fd, libc::F_SETLKW, &mut lock_of(libc::F_WRLCK, byte))
}

/// Gives the lock on a byte back.
///
/// # Errors
/// Those of a descriptor that is gone.
pub fn give_back(fd: RawFd, byte: u64) -> Result<()> {
    ask(fd, libc::F_SETLK, &mut lock_of(libc::F_UNLCK, byte))
}

/// Whether another process holds the lock on a byte.
///
/// # Errors
/// Those of a descriptor that is gone.
pub fn is_held(fd: RawFd, byte: u64) -> Result<bool> {
    let mut lock = lock_of(libc::F_WRLCK, byte);
    ask(fd, libc::F_GETLK, &mut lock)?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}
