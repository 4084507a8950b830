//! poll, select and epoll.

use libc::{
    c_int, c_long, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval,
};
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

/// The kernel's signal mask, of eight bytes, as libc's.
///
/// # Safety
/// `mask` must be null or valid for eight bytes.
unsafe fn mask_of(mask: *const u64) -> Option<sigset_t> {
    // SAFETY: as the caller vouches.
    let bits = unsafe { mask.as_ref() }?;
    // SAFETY: a set of signals is plain words, of which the kernel's are the first.
    unsafe {
        let mut set: sigset_t = core::mem::zeroed();
        (&raw mut set).cast::<u64>().write(*bits);
        Some(set)
    }
}

/// Waiting by a system call of the program's own; `None` if it is none of these.
///
/// # Safety
/// The arguments must be valid for that system call.
pub(crate) unsafe fn system_call(
    number: c_long,
    [a, b, c, d, e, f]: [c_long; 6],
) -> Option<c_long> {
    let pointer =
        |set: &Option<sigset_t>| set.as_ref().map_or(core::ptr::null(), |set| &raw const *set);
    // SAFETY: as the caller vouches.
    let result = unsafe {
        match number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => poll(a as *mut _, b as nfds_t, c as c_int),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => {
                select(a as c_int, b as *mut _, c as *mut _, d as *mut _, e as *mut _)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => epoll_create(a as c_int),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => epoll_wait(a as c_int, b as *mut _, c as c_int, d as c_int),
            libc::SYS_ppoll => {
                let mask = mask_of(d as *const u64);
                ppoll(a as *mut _, b as nfds_t, c as *const _, pointer(&mask))
            }
            libc::SYS_pselect6 => {
                // The mask's address and size lie in memory.
                let mask = (f as *const *const u64).as_ref().and_then(|mask| mask_of(*mask));
                let sets = (b as *mut _, c as *mut _, d as *mut _);
                pselect(a as c_int, sets.0, sets.1, sets.2, e as *const _, pointer(&mask))
            }
            libc::SYS_epoll_create1 => epoll_create1(a as c_int),
            libc::SYS_epoll_ctl => epoll_ctl(a as c_int, b as c_int, c as c_int, d as *mut _),
            libc::SYS_epoll_pwait => {
                let mask = mask_of(e as *const u64);
                epoll_pwait(a as c_int, b as *mut _, c as c_int, d as c_int, pointer(&mask))
            }
            libc::SYS_epoll_pwait2 => {
                let mask = mask_of(e as *const u64);
                epoll_pwait2(a as c_int, b as *mut _, c as c_int, d as *const _, pointer(&mask))
            }
            _ => return None,
        }
    };
    Some(c_long::from(result))
}
