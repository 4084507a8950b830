//! Operations on descriptors of any kind.

use super::{RawFd, Result, Sysno};

/// Closes a descriptor.
pub fn close(fd: RawFd) -> Result<()> {
    sys!(close, fd).map(drop)
}

/// Closes all descriptors from `first` to `last`, both included.
pub fn close_range(first: RawFd, last: RawFd) {
    if first <= last && sys!(close_range, first, last, 0usize).is_err() {
        // The kernel is older than Linux 5.9, or a seccomp filter refuses the call.
        let limit = super::soft_limit(libc::RLIMIT_NOFILE).unwrap_or(1 << 20) as RawFd;
        (first..=last.min(limit)).for_each(|fd| {
            let _ = close(fd);
        });
    }
}

/// Makes the kernel close the descriptors `fds` when this process executes another program. Sorts `fds`.
pub fn close_on_exec(fds: &mut [RawFd]) {
    fds.sort_unstable();
    for run in fds.chunk_by(|fd, next| next - fd <= 1) {
        let (first, last) = (run[0], run[run.len() - 1]);
        let flag = libc::CLOSE_RANGE_CLOEXEC as usize;
        // Linux knows this flag since version 5.11, and a seccomp filter may refuse the call.
        if first == last || sys!(close_range, first, last, flag).is_err() {
            run.iter().for_each(|&fd| _ = fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC as usize));
        }
    }
}

/// Calls `fcntl` with a plain argument.
pub fn fcntl(fd: RawFd, command: i32, argument: usize) -> Result<usize> {
    sys!(fcntl, fd, command, argument)
}

/// Returns true if `fd` is in non-blocking mode. A closed descriptor counts as blocking.
pub fn is_nonblocking(fd: RawFd) -> bool {
    fcntl(fd, libc::F_GETFL, 0).is_ok_and(|f| f as i32 & libc::O_NONBLOCK != 0)
}

/// Makes `to` a duplicate of `fd` (`dup3` without flags). `to` keeps its number.
pub fn dup_onto(fd: RawFd, to: RawFd) -> Result<()> {
    sys!(dup3, fd, to, 0usize).map(drop)
}

/// Like [`dup_onto`], but the kernel closes `to` at exec.
pub fn dup_cloexec_onto(fd: RawFd, to: RawFd) -> Result<()> {
    sys!(dup3, fd, to, libc::O_CLOEXEC).map(drop)
}

/// Makes an event counter, which serves as a doorbell.
pub fn eventfd(flags: i32) -> Result<RawFd> {
    sys!(eventfd2, 0usize, flags).map(|n| n as RawFd)
}

/// Makes a close-on-exec and non-blocking pipe. Returns the end for reading, then the end for writing.
pub fn pipe() -> Result<[RawFd; 2]> {
    let mut fds = [0i32; 2];
    sys!(pipe2, fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK)?;
    Ok(fds)
}
