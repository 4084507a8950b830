//! Waiting for kernel descriptors.

use crate::call::{Prepared, RawFd, Result, Sysno};
use crate::clock::timespec;

/// One entry of a poll set.
pub use libc::pollfd as PollFd;

/// `ppoll`: waits up to `timeout_ns` (for ever if `None`); `mask` is the signal mask to wait
/// under.
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

/// [`ppoll`], by the system call `make`.
///
/// # Errors
/// As there, and what `make` says.
pub fn ppoll_by(
    make: impl FnOnce(Prepared) -> Result<usize>,
    fds: &mut [PollFd],
    timeout_ns: Option<u64>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize> {
    let mut ts = timeout_ns.map(timespec);
    let ts = ts.as_mut().map_or(core::ptr::null_mut(), core::ptr::from_mut) as usize;
    let mask = mask.map_or(core::ptr::null(), core::ptr::from_ref) as usize;
    // All three point to live values or are null.
    let arguments = [fds.as_mut_ptr() as usize, fds.len(), ts, mask, SIGSET, 0];
    make(Prepared::new(Sysno::ppoll, arguments))
}

/// Bytes of the kernel's `sigset_t`.
const SIGSET: usize = 8;

/// The events that hold for one descriptor at this moment.
pub fn probe(fd: RawFd, events: i16) -> i16 {
    let mut fds = [PollFd { fd, events, revents: 0 }];
    match ppoll(&mut fds, Some(0), None) {
        Ok(_) => fds[0].revents,
        Err(_) => 0,
    }
}

/// Waits until one of the events holds for a descriptor, or a signal has come.
pub fn wait(fd: RawFd, events: i16) {
    let _ = ppoll(&mut [PollFd { fd, events, revents: 0 }], None, None);
}

/// A new epoll instance.
pub fn epoll_create() -> Result<RawFd> {
    // SAFETY: takes a flag word only.
    unsafe { syscalls::syscall!(Sysno::epoll_create1, libc::EPOLL_CLOEXEC) }.map(|n| n as RawFd)
}

/// Adds, changes or removes a descriptor's interest.
pub fn epoll_ctl(epfd: RawFd, op: i32, fd: RawFd, events: u32, data: u64) -> Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: the event outlives the call.
    unsafe { syscalls::syscall!(Sysno::epoll_ctl, epfd, op, fd, &raw mut event) }.map(drop)
}

/// `epoll_pwait2`: like [`ppoll`] for an epoll instance.
///
/// # Errors
/// `EINTR` for a signal; others for what is no such instance.
pub fn epoll_wait(
    epfd: RawFd,
    events: &mut [libc::epoll_event],
    timeout_ns: Option<u64>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize> {
    epoll_wait_by(Prepared::make, epfd, events, timeout_ns, mask)
}

/// [`epoll_wait`], by the system call `make`.
///
/// # Errors
/// As there, and what `make` says.
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
    // All pointers are live or null.
    let arguments = [epfd as usize, events.as_mut_ptr() as usize, events.len(), ts, mask, SIGSET];
    make(Prepared::new(Sysno::epoll_pwait2, arguments))
}
