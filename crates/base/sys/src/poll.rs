//! Waits for events of kernel descriptors.

use crate::call::{Prepared, RawFd, Result, Sysno};
use crate::clock::timespec;

/// One entry of a poll set.
pub use libc::pollfd as PollFd;

/// Calls `ppoll`: waits up to `timeout_ns`, or without a limit if it is `None`. `mask` is the signal mask during
/// the wait.
///
/// # Errors
/// `EINTR` for a signal, `EINVAL` for too many entries.
pub fn ppoll(
    fds: &mut [PollFd],
    timeout_ns: Option<u64>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize> {
    ppoll_by(Prepared::make, fds, timeout_ns, mask)
}

/// Like [`ppoll`], but `make` makes the system call.
///
/// # Errors
/// Those of [`ppoll`] and of `make`.
pub fn ppoll_by(
    make: impl FnOnce(Prepared) -> Result<usize>,
    fds: &mut [PollFd],
    timeout_ns: Option<u64>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize> {
    let mut ts = timeout_ns.map(timespec);
    let ts = ts.as_mut().map_or(core::ptr::null_mut(), core::ptr::from_mut) as usize;
    let mask = mask.map_or(core::ptr::null(), core::ptr::from_ref) as usize;
    // All three pointers are null or point to live values.
    let arguments = [fds.as_mut_ptr() as usize, fds.len(), ts, mask, SIGSET, 0];
    make(Prepared::new(Sysno::ppoll, arguments))
}

/// Number of bytes in the kernel's `sigset_t`.
const SIGSET: usize = 8;

/// Returns the events that hold for a descriptor at this moment.
pub fn probe(fd: RawFd, events: i16) -> i16 {
    let mut fds = [PollFd { fd, events, revents: 0 }];
    match ppoll(&mut fds, Some(0), None) {
        Ok(_) => fds[0].revents,
        Err(_) => 0,
    }
}

/// Waits until one of the events holds for a descriptor, or a signal arrives.
pub fn wait(fd: RawFd, events: i16) {
    let _ = ppoll(&mut [PollFd { fd, events, revents: 0 }], None, None);
}

/// Makes an epoll instance.
pub fn epoll_create() -> Result<RawFd> {
    // SAFETY: the call takes only a flag word.
    unsafe { syscalls::syscall!(Sysno::epoll_create1, libc::EPOLL_CLOEXEC) }.map(|n| n as RawFd)
}

/// Adds, changes or removes a descriptor's entry in an epoll instance.
pub fn epoll_ctl(epfd: RawFd, op: i32, fd: RawFd, events: u32, data: u64) -> Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: the event outlives the call.
    unsafe { syscalls::syscall!(Sysno::epoll_ctl, epfd, op, fd, &raw mut event) }.map(drop)
}

/// Calls `epoll_pwait2`, which is like [`ppoll`] for an epoll instance.
///
/// # Errors
/// `EINTR` for a signal; other errors if `epfd` is no epoll instance.
pub fn epoll_wait(
    epfd: RawFd,
    events: &mut [libc::epoll_event],
    timeout_ns: Option<u64>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize> {
    epoll_wait_by(Prepared::make, epfd, events, timeout_ns, mask)
}

/// Like [`epoll_wait`], but `make` makes the system call.
///
/// # Errors
/// Those of [`epoll_wait`] and of `make`.
pub fn epoll_wait_by(
    make: impl FnOnce(Prepared) -> Result<usize>,
    epfd: RawFd,
    events: &mut [libc::epoll_event],
    timeout_ns: Option<u64>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize> {
    let ts = timeout_ns.map(timespec);
    let ts = ts.as_ref().map_or(core::ptr::null(), core::ptr::from_ref) as usize;
    let mask = mask.map_or(core::ptr::null(), core::ptr::from_ref) as usize;
    // All pointers are null or point to live values.
    let arguments = [epfd as usize, events.as_mut_ptr() as usize, events.len(), ts, mask, SIGSET];
    make(Prepared::new(Sysno::epoll_pwait2, arguments))
}
