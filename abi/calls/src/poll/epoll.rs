//! The epoll calls.

use super::{limit, ms};
use crate::boundary::{finish, give, outcome, take, take_mask};
use libc::{c_int, epoll_event, sigset_t, timespec};
use sovia_sockets::epoll::{self, KernelSleep};
use sovia_sockets::process::PLAIN;
use sovia_sockets::table::{self, Entry};
use sovia_sockets::wait::{self, now_ns};

/// Returns the index of the epoll instance `epfd`, or `None` if the table has no entry for it.
fn followed(epfd: c_int) -> Option<u32> {
    match table::get(epfd) {
        Entry::Epoll(index) => Some(index),
        _ => None,
    }
}

/// Like [`followed`], for a call that waits. Prepares for the kernel's wait if it returns `None`.
fn waits_on(epfd: c_int) -> Option<u32> {
    let index = followed(epfd);
    if index.is_none() {
        wait::before_kernel_wait();
    }
    index
}

/// Returns the entries of the program's array `events` up to the first one that is not writable, at most `max`
/// entries. Returns `None` if `max` is not 0 and the first entry is not writable.
///
/// # Safety
/// The program must own `max` entries at `events`, which may be unmapped.
unsafe fn slice<'a>(events: *mut epoll_event, max: c_int) -> Option<&'a mut [epoll_event]> {
    let max = usize::try_from(max).ok()?;
    let is_there = |i: usize| {
        let event = events.wrapping_add(i);
        // SAFETY: the program owns the entry, and every bit pattern is a valid event. The closure stores the value
        // that it has read.
        unsafe { take(event).and_then(|was| give(event, was)) }.is_ok()
    };
    let count = if max == 0 || is_there(0) && is_there(max - 1) {
        max
    } else {
        (0..max).take_while(|&i| is_there(i)).count()
    };
    if count == 0 && max > 0 {
        return None;
    }
    // SAFETY: the closure has just written the first and the last entry, or each entry. The program owns the array,
    // and lets no other thread use the array during the call.
    Some(if max == 0 { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(events, count) } })
}

/// Waits on the epoll instance with this index in Sovia's table. `kernel` makes the real call.
///
/// # Safety
/// Same as [`slice`].
unsafe fn epoll_any(
    index: u32,
    events: *mut epoll_event,
    max: c_int,
    timeout: Option<u64>,
    mask: *const sigset_t,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    if max <= 0 || max as usize > (c_int::MAX as usize) / size_of::<epoll_event>() {
        return kernel();
    }
    let mut kernel = Some(kernel);
    let sleeps = timeout != Some(0);
    let mut has_rung = false;
    // Deadline of the program's call. Set if the real call has used a part of the time-out.
    let mut until = None;
    let is_kernels = !epoll::is_ours(index);
    let sleep = if is_kernels && sleeps { KernelSleep::begin(index) } else { None };
    if is_kernels
        && (sleep.is_some() || !sleeps)
        && let Some(kernel) = kernel.take()
    {
        // SAFETY: the program owns the array, and every bit pattern is a valid event.
        let before = unsafe { take(events) }.ok();
        until = timeout.filter(|_| sleeps).map(|timeout| now_ns().saturating_add(timeout));
        let n = kernel();
        if let Some(sleep) = sleep {
            sleep.end();
        }
        if n <= 0 {
            return n;
        }
        // SAFETY: the kernel has just written `n` entries at `events`, and the program owns the array.
        let reported = unsafe { core::slice::from_raw_parts_mut(events, n as usize) };
        let kept = epoll::filter(reported, before);
        has_rung = kept < n as usize;
        if kept > 0 || !sleeps {
            if kept > 1 {
                epoll::note_order(index, &mut reported[..kept]);
            }
            if has_rung {
                epoll::pass_on(index);
            }
            return kept as c_int;
        }
        // All events of the kernel were for Sovia, and none for the program. A connection got a VI during the real
        // call, or a connection with a disabled entry has ended.
    }
    // SAFETY: the caller guarantees that the program owns `max` entries at `events`, and that `mask` comes from the
    // program.
    let (out, mask) = match unsafe { (slice(events, max), take_mask(mask)) } {
        (Some(out), Ok(mask)) => (out, mask),
        _ => return finish(Err(libc::EFAULT)) as c_int,
    };
    let timeout = until.map_or(timeout, |until| Some(until.saturating_sub(now_ns())));
    let result = epoll::wait(index, out, timeout, mask.as_ref());
    if has_rung {
        epoll::pass_on(index);
    }
    match result {
        Err(PLAIN) => kernel.take().map_or(0, |kernel| kernel()),
        result => finish(result) as c_int,
    }
}

calls! {
    fn epoll_create(real, size: c_int) -> c_int {
        let epfd = real(size);
        if epfd >= 0 {
            epoll::created(epfd);
        }
        epfd
    }

    fn epoll_create1(real, flags: c_int) -> c_int {
        let epfd = real(flags);
        if epfd >= 0 {
            epoll::created(epfd);
        }
        epfd
    }

    fn epoll_ctl(real, epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        let Some(index) = followed(epfd) else { return real(epfd, op, fd, event) };
        let wanted = take(event).ok().map(|event| (event.events, event.u64));
        let kernel = || outcome(real(epfd, op, fd, event) as isize);
        finish(epoll::control(index, op, fd, wanted, kernel)) as c_int
    }

    fn epoll_wait(real, epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
        let kernel = || real(epfd, events, max, timeout);
        match waits_on(epfd) {
            Some(index) => epoll_any(index, events, max, ms(timeout), core::ptr::null(), kernel),
            None => kernel(),
        }
    }

    fn epoll_pwait(real,
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t,
    ) -> c_int {
        let kernel = || real(epfd, events, max, timeout, mask);
        match waits_on(epfd) {
            // SAFETY: epoll_pwait's contract requires `max` entries at `events`, which the program owns.
            Some(index) => epoll_any(index, events, max, ms(timeout), mask, kernel),
            None => kernel(),
        }
    }

    fn epoll_pwait2(real,
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        let kernel = || real(epfd, events, max, timeout, mask);
        let Some(index) = waits_on(epfd) else { return kernel() };
        match limit(timeout) {
            Ok(limit) => epoll_any(index, events, max, limit, mask, kernel),
            // The kernel refuses a time-out that is out of range.
            Err(_) => kernel(),
        }
    }
}
