//! Hooks for poll, select and epoll.

use core::cell::{Cell, RefCell};
use libc::{
    c_int, c_long, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval,
};
use sovia_calls as calls;
use sovia_calls::boundary::{errno, give, may_look, take_if};
use sovia_calls::descriptors::created;
use sovia_sockets::wait::now_ns;

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

/// Size of the kernel's signal masks, in bytes.
const MASK: usize = size_of::<u64>();

/// Handles a system call that waits for descriptors. Returns `None` for other system calls. `kernel` makes the real
/// system call, at most once.
///
/// # Safety
/// The arguments must be valid for the system call `number`.
pub(crate) unsafe fn system_call(
    number: c_long,
    [a, b, c, d, e, f]: [c_long; 6],
    kernel: &mut impl FnMut() -> c_long,
) -> Option<c_long> {
    let is_kernels = Cell::new(false);
    let kernel = RefCell::new(kernel);
    let real = || {
        is_kernels.set(true);
        kernel.borrow_mut()() as c_int
    };
    // The kernel refuses a mask of another size before it checks any other argument.
    let has_mask_of_other_size = |mask: c_long, size: c_long| mask != 0 && size as usize != MASK;
    // SAFETY: the caller guarantees valid arguments. The block reads only the first 8 bytes of a mask, the size of
    // the kernel's mask.
    let result = unsafe {
        match number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => {
                calls::poll::poll(|_, _, _| real(), a as *mut _, b as nfds_t, c as c_int)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => {
                let sets = (b as *mut _, c as *mut _, d as *mut _);
                let real = |_, _, _, _, _| real();
                calls::poll::select(real, a as c_int, sets.0, sets.1, sets.2, e as *mut _)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => calls::poll::epoll_create(|_| created(real()), a as c_int),
            libc::SYS_epoll_create1 => calls::poll::epoll_create1(|_| created(real()), a as c_int),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => {
                let real = |_, _, _, _| real();
                calls::poll::epoll_wait(real, a as c_int, b as *mut _, c as c_int, d as c_int)
            }
            libc::SYS_epoll_ctl => {
                let real = |_, _, _, _| real();
                calls::poll::epoll_ctl(real, a as c_int, b as c_int, c as c_int, d as *mut _)
            }
            libc::SYS_ppoll if has_mask_of_other_size(d, e) => real(),
            libc::SYS_ppoll => storing_time_left(c as *mut timespec, &is_kernels, || {
                let real = |_, _, _, _| real();
                calls::poll::ppoll(real, a as *mut _, b as nfds_t, c as *const _, d as *const _)
            }),
            libc::SYS_pselect6 => match mask_of_pselect(f as *const [usize; 2]) {
                Some([mask, size]) if !has_mask_of_other_size(mask as c_long, size as c_long) => {
                    storing_time_left(e as *mut timespec, &is_kernels, || {
                        let real = |_, _, _, _, _, _| real();
                        let sets = (b as *mut _, c as *mut _, d as *mut _);
                        let (count, mask) = (a as c_int, mask as *const sigset_t);
                        calls::poll::pselect(
                            real,
                            count,
                            sets.0,
                            sets.1,
                            sets.2,
                            e as *const _,
                            mask,
                        )
                    })
                }
                _ => real(),
            },
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 if has_mask_of_other_size(e, f) => {
                real()
            }
            libc::SYS_epoll_pwait => {
                let real = |_, _, _, _, _| real();
                let (events, max, mask) = (b as *mut _, c as c_int, e as *const _);
                calls::poll::epoll_pwait(real, a as c_int, events, max, d as c_int, mask)
            }
            libc::SYS_epoll_pwait2 => {
                let real = |_, _, _, _, _| real();
                let (events, max, mask) = (b as *mut _, c as c_int, e as *const _);
                calls::poll::epoll_pwait2(real, a as c_int, events, max, d as *const _, mask)
            }
            _ => return None,
        }
    };
    Some(c_long::from(result))
}

/// Reads the address and the size of `pselect6`'s mask. Returns `None` if the kernel must answer the call.
///
/// # Safety
/// `at` must be a pointer that the program passed. Its memory may be unmapped.
unsafe fn mask_of_pselect(at: *const [usize; 2]) -> Option<[usize; 2]> {
    if !may_look() {
        return None;
    }
    // SAFETY: the program owns the memory, and every bit pattern is a valid pair of integers.
    unsafe { take_if(at) }.ok().map(Option::unwrap_or_default)
}

/// Runs `call`, which waits for at most `time`. If Sovia has waited and not the kernel, stores the remaining time
/// in `time`, as the kernel would.
///
/// # Safety
/// `time` must be a pointer that the program passed. Its memory may be unmapped.
unsafe fn storing_time_left(
    time: *mut timespec,
    is_kernels: &Cell<bool>,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the program owns the memory, and every bit pattern is a valid `timespec`.
    let limit = if may_look() { unsafe { take_if(time) } } else { Ok(None) };
    let begun = now_ns();
    let result = call();
    // Like the kernel, this code stores no remaining time for a time-out of 0.
    if let Ok(Some(limit)) = limit
        && !is_kernels.get()
        && (result >= 0 || errno() == libc::EINTR)
        && (limit.tv_sec, limit.tv_nsec) != (0, 0)
    {
        let limit = limit.tv_sec as u128 * 1_000_000_000 + limit.tv_nsec as u128;
        let left = limit.saturating_sub(u128::from(now_ns() - begun));
        let left =
            timespec { tv_sec: (left / 1_000_000_000) as _, tv_nsec: (left % 1_000_000_000) as _ };
        // SAFETY: the program owns the memory, and a `timespec` has no padding. A time-out that cannot be written
        // stays unchanged.
        let _ = unsafe { give(time, left) };
    }
    result
}
