//! poll, select and epoll.

use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use sovia_calls as calls;
use sovia_calls::descriptors::created;

hooks! {
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        calls::poll::poll(later!(), fds, count, timeout)
    }

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, size: size_t) -> c_int {
        if (size / size_of::<pollfd>()) < count as usize {
            return real!()(fds, count, timeout, size);
        }
        poll(fds, count, timeout)
    }

    fn ppoll(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        calls::poll::ppoll(later!(), fds, count, timeout, mask)
    }

    fn __ppoll_chk(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        size: size_t,
    ) -> c_int {
        if (size / size_of::<pollfd>()) < count as usize {
            return real!()(fds, count, timeout, mask, size);
        }
        ppoll(fds, count, timeout, mask)
    }

    fn select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        calls::poll::select(later!(), count, read, write, except, timeout)
    }

    fn pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        calls::poll::pselect(later!(), count, read, write, except, timeout, mask)
    }

    fn epoll_create(size: c_int) -> c_int {
        calls::poll::epoll_create(|size| created(real!()(size)), size)
    }

    fn epoll_create1(flags: c_int) -> c_int {
        calls::poll::epoll_create1(|flags| created(real!()(flags)), flags)
    }

    fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        calls::poll::epoll_ctl(later!(), epfd, op, fd, event)
    }

    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
        calls::poll::epoll_wait(later!(), epfd, events, max, timeout)
    }

    fn epoll_pwait(
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t,
    ) -> c_int {
        calls::poll::epoll_pwait(later!(), epfd, events, max, timeout, mask)
    }

    fn epoll_pwait2(
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        calls::poll::epoll_pwait2(later!(), epfd, events, max, timeout, mask)
    }
}
