//! Network namespaces: the namespace of a socket or thread, and changes of a thread's namespace.

use crate::call::{self, RawFd, Result, Sysno};
use crate::fd::Fd;

/// Opens the network namespace of a socket. An accepted Unix socket belongs to the namespace in which its other
/// end was made.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` in that namespace.
pub fn of_socket(socket: RawFd) -> Result<Fd> {
    const SIOCGSKNS: usize = 0x894c;
    // SAFETY: the call takes a descriptor and a number, and returns a new descriptor.
    let fd = unsafe { syscalls::syscall!(Sysno::ioctl, socket, SIOCGSKNS) }?;
    Ok(Fd::adopt(fd as RawFd))
}

/// Opens the network namespace of the calling thread.
///
/// # Errors
/// Those of `open`, if /proc is missing.
pub fn current() -> Result<Fd> {
    Fd::make(|| call::open(c"/proc/thread-self/ns/net", libc::O_RDONLY | libc::O_CLOEXEC, 0))
}

/// Returns device and inode of a namespace, which identify it.
///
/// # Errors
/// Those of `fstat`.
pub fn id(namespace: &Fd) -> Result<(u64, u64)> {
    call::file_id(namespace.raw())
}

/// Moves the calling thread to a network namespace.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN` in both namespaces.
pub fn enter(namespace: &Fd) -> Result<()> {
    // SAFETY: the call takes a descriptor and a number.
    unsafe { syscalls::syscall!(Sysno::setns, namespace.raw(), libc::CLONE_NEWNET) }.map(drop)
}

/// Gives the calling thread a new network namespace, which ends with the last thread, descriptor or device in it.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn fresh() -> Result<()> {
    // SAFETY: the call takes a number, and does not change the thread's open descriptors.
    unsafe { syscalls::syscall!(Sysno::unshare, libc::CLONE_NEWNET) }.map(drop)
}
