//! Network namespaces: which one a socket belongs to, and entering it.

use crate::call::{self, RawFd, Result, Sysno};
use crate::fd::Fd;

/// The network namespace of a socket. That of an accepted Unix socket is the one in which its other end was made.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` there.
pub fn of_socket(socket: RawFd) -> Result<Fd> {
    const SIOCGSKNS: usize = 0x894c;
    // SAFETY: takes a descriptor and a number, and makes a descriptor.
    let fd = unsafe { syscalls::syscall!(Sysno::ioctl, socket, SIOCGSKNS) }?;
    Ok(Fd::adopt(fd as RawFd))
}

/// That of the calling thread.
///
/// # Errors
/// Those of `open`, where /proc is missing.
pub fn current() -> Result<Fd> {
    Fd::make(|| call::open(c"/proc/thread-self/ns/net", libc::O_RDONLY | libc::O_CLOEXEC, 0))
}

/// Which one it is.
///
/// # Errors
/// Those of `fstat`.
pub fn id(namespace: &Fd) -> Result<(u64, u64)> {
    call::file_id(namespace.raw())
}

/// Takes the calling thread to a network namespace.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN` here and there.
pub fn enter(namespace: &Fd) -> Result<()> {
    // SAFETY: takes a descriptor and a number.
    unsafe { syscalls::syscall!(Sysno::setns, namespace.raw(), libc::CLONE_NEWNET) }.map(drop)
}

/// Gives the calling thread a network namespace of its own, which ends with the last thread, descriptor or device in it.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn fresh() -> Result<()> {
    // SAFETY: takes a number; what the thread has open stays as it is.
    unsafe { syscalls::syscall!(Sysno::unshare, libc::CLONE_NEWNET) }.map(drop)
}
