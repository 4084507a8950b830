//! poll, select and epoll, over descriptors of every kind.

use crate::{is_preloaded, kind};
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use sovia_calls::poll as calls;
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::native;
use sovia_sockets::table::{self, Entry};

natives! {
    fn sov_poll = libc::poll, calls::poll,
        (fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn sov_ppoll = libc::ppoll, calls::ppoll,
        (fds: *mut pollfd, count: nfds_t, timeout: *const timespec,
         mask: *const sigset_t) -> c_int;
    fn sov_select = libc::select, calls::select,
        (count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
         timeout: *mut timeval) -> c_int;
    fn sov_pselect = libc::pselect, calls::pselect,
        (count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
         timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn sov_epoll_wait = libc::epoll_wait, calls::epoll_wait,
        (epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int;
    fn sov_epoll_pwait = libc::epoll_pwait, calls::epoll_pwait,
        (epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int,
         mask: *const sigset_t) -> c_int;
    fn sov_epoll_pwait2 = epoll_pwait2, calls::epoll_pwait2,
        (epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec,
         mask: *const sigset_t) -> c_int;
}

/// Makes the system call itself, because glibc has the function only since version 2.35.
unsafe fn epoll_pwait2(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the C caller passes arguments that are valid for epoll_pwait2(2). The kernel's signal set has 8 bytes.
    unsafe { libc::syscall(libc::SYS_epoll_pwait2, epfd, events, max, timeout, mask, 8) as c_int }
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_epoll_create1(flags: c_int) -> c_int {
    native::engine();
    // SAFETY: takes a number only.
    unsafe {
        if is_preloaded() {
            return libc::epoll_create1(flags);
        }
        calls::epoll_create1(|flags| libc::epoll_create1(flags), flags)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_epoll_ctl(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let real = |epfd, op, fd, event| {
        // SAFETY: the C caller passes an event that is valid for epoll_ctl(2).
        unsafe { libc::epoll_ctl(epfd, op, fd, event) }
    };
    // Sovia begins to follow a socket here only if it is of type SOCK_VIA.
    let foreign = matches!(table::get(fd), Entry::Foreign) && !kind::is_via(fd);
    if is_preloaded() || foreign {
        return real(epfd, op, fd, event);
    }
    // An epoll instance that libc's `epoll_create1` made sees only the kernel's bytes. So the connection falls back to
    // TCP.
    if !matches!(table::get(epfd), Entry::Epoll(_))
        && let Some(at) = table::conn(fd)
    {
        fallback::now(fd, at, Cause::Call);
    }
    // SAFETY: the C caller passes an event that is valid for epoll_ctl(2).
    unsafe { calls::epoll_ctl(real, epfd, op, fd, event) }
}
