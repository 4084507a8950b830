//! Descriptors, whatever they are of.

use super::{Errno, RawFd, Result, Sysno};
use core::sync::atomic::{AtomicBool, Ordering};

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

/// Takes up to so many bytes out of a pipe and forgets them. Never waits, whatever mode the pipe's open file is in. What
/// watches the writing end is told that a buffer has been emptied; `read` tells it only if the pipe was full.
///
/// Filters of system calls differ in which of the calls for it they refuse: podman's lets no vmsplice through.
///
/// # Errors
/// `EAGAIN` if there are none; otherwise see splice(2).
pub fn take_from_pipe(fd: RawFd, bytes: &mut [u8]) -> Result<usize> {
    /// A filter stays until the process ends.
    static REFUSES_VMSPLICE: AtomicBool = AtomicBool::new(false);
    if !REFUSES_VMSPLICE.load(Ordering::Relaxed) {
        match take_by_vmsplice(fd, bytes) {
            Err(Errno::ENOSYS | Errno::EPERM | Errno::EACCES) => {
                REFUSES_VMSPLICE.store(true, Ordering::Relaxed);
            }
            taken => return taken,
        }
    }
    take_by_splice(fd, bytes)
}

fn take_by_vmsplice(fd: RawFd, bytes: &mut [u8]) -> Result<usize> {
    let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    sys!(vmsplice, fd, &raw const part, 1usize, libc::SPLICE_F_NONBLOCK)
}

/// By way of another pipe, which goes away with what has come.
fn take_by_splice(fd: RawFd, bytes: &mut [u8]) -> Result<usize> {
    let [read, write] = pipe()?;
    let taken = sys!(splice, fd, 0usize, write, 0usize, bytes.len(), libc::SPLICE_F_NONBLOCK);
    for end in [read, write] {
        let _ = close(end);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_takes_and_tells_writers_and_never_waits() {
        for take in [take_by_vmsplice, take_by_splice, take_from_pipe] {
            let [read, write] = pipe().unwrap();
            fcntl(read, libc::F_SETFL, 0).unwrap();
            let watch = crate::poll::epoll_create().unwrap();
            let events = (libc::EPOLLOUT | libc::EPOLLET) as u32;
            crate::poll::epoll_ctl(watch, libc::EPOLL_CTL_ADD, write, events, 0).unwrap();
            let is_told = || {
                let mut event = [libc::epoll_event { events: 0, u64: 0 }];
                crate::poll::epoll_wait(watch, &mut event, Some(0), None) == Ok(1)
            };
            assert!(is_told(), "of the room that there is from the start");
            assert_eq!(take(read, &mut [0; 64]), Err(Errno::EAGAIN));
            crate::call::write(write, &[7; 3]).unwrap();
            assert_eq!(take(read, &mut [0; 64]), Ok(3));
            assert!(is_told());
            assert!(!is_told());
            for end in [read, write, watch] {
                close(end).unwrap();
            }
        }
    }
}
