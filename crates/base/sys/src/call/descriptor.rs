//! Descriptors, whatever they are of.

use super::{RawFd, Result, Sysno};

/// Closes a descriptor.
pub fn close(fd: RawFd) -> Result<()> {
    sys!(close, fd).map(drop)
}

/// Closes a range of descriptors, `last` included.
pub fn close_range(first: RawFd, last: RawFd) {
    if first <= last && sys!(close_range, first, last, 0usize).is_err() {
        // Before Linux 5.9, or under a filter.
        let limit = super::soft_limit(libc::RLIMIT_NOFILE).unwrap_or(1 << 20) as RawFd;
        (first..=last.min(limit)).for_each(|fd| {
            let _ = close(fd);
        });
    }
}

/// `fcntl` with a plain argument.
pub fn fcntl(fd: RawFd, command: i32, argument: usize) -> Result<usize> {
    sys!(fcntl, fd, command, argument)
}

/// Whether `fd` is in non-blocking mode; a closed descriptor counts as blocking.
pub fn is_nonblocking(fd: RawFd) -> bool {
    fcntl(fd, libc::F_GETFL, 0).is_ok_and(|f| f as i32 & libc::O_NONBLOCK != 0)
}

/// Makes `to` a descriptor of what `fd` is, keeping `to`'s number (`dup3` without flags).
pub fn dup_onto(fd: RawFd, to: RawFd) -> Result<()> {
    sys!(dup3, fd, to, 0usize).map(drop)
}

/// Like [`dup_onto`], and `to` is closed at exec.
pub fn dup_cloexec_onto(fd: RawFd, to: RawFd) -> Result<()> {
    sys!(dup3, fd, to, libc::O_CLOEXEC).map(drop)
}

/// An event counter, used as a doorbell.
pub fn eventfd(flags: i32) -> Result<RawFd> {
    sys!(eventfd2, 0usize, flags).map(|n| n as RawFd)
}

/// A pipe, close-on-exec and non-blocking: the end to read from, then the end to write to.
pub fn pipe() -> Result<[RawFd; 2]> {
    let mut fds = [0i32; 2];
    sys!(pipe2, fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK)?;
    Ok(fds)
}
