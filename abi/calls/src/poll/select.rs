//! select and pselect. These calls convert the sets of descriptors to a list of descriptors, like that of poll.

use super::{FEW, NONE, limit};
use crate::boundary::{finish, give, may_look, take_if, take_mask};
use libc::{c_int, fd_set, pollfd, sigset_t, timespec, timeval};
use sovia_signal::access::{self, BadAddress};
use sovia_sockets::Outcome;
use sovia_sockets::pollset::{self, OnTcp, PollCall};
use sovia_sockets::process::PLAIN;
use sovia_sockets::table::{self, Entry};
use sovia_sockets::wait::before_kernel_wait;

calls! {
    fn select(real,
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        select_any(count, [read, write, except], |wait| {
            let time = take_if(timeout)?;
            let limit = match &time {
                None => None,
                Some(tv) if tv.tv_sec < 0 || tv.tv_usec < 0 => return Err(libc::EINVAL),
                Some(tv) => Some(
                    (tv.tv_sec as u64).saturating_mul(1_000_000_000)
                        .saturating_add((tv.tv_usec as u64).saturating_mul(1000)),
                ),
            };
            let begun = sovia_now();
            let result = wait(limit, None);
            // Like Linux, this code stores the time left if the memory of `timeout` is writable.
            if let Some(limit) = limit {
                let left = limit.saturating_sub(sovia_now() - begun);
                let left = timeval {
                    tv_sec: (left / 1_000_000_000) as _,
                    tv_usec: (left % 1_000_000_000 / 1000) as _,
                };
                let _ = give(timeout, left);
            }
            result
        })
        .unwrap_or_else(|_on_tcp| {
            before_kernel_wait();
            real(count, read, write, except, timeout)
        })
    }

    fn pselect(real,
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        select_any(count, [read, write, except], |wait| wait(limit(timeout)?, take_mask(mask)?.as_ref()))
            .unwrap_or_else(|_on_tcp| {
                before_kernel_wait();
                real(count, read, write, except, timeout, mask)
            })
    }
}

fn sovia_now() -> u64 {
    sovia_sockets::wait::now_ns()
}

/// Maximum number of words of a set on the stack, enough for FD_SETSIZE descriptors.
const SET_WORDS: usize = 1024 / 64;

/// Waits for the descriptors in the program's sets, if one of them is an accelerated connection. If none is,
/// returns an [`OnTcp`]. The caller must then make the real call, and must keep the [`OnTcp`] until that call has
/// returned. `call` reads the time-out, and passes it to the [`Wait`] function.
///
/// # Safety
/// The sets must be pointers that the program passed.
unsafe fn select_any(
    count: c_int,
    sets: [*mut fd_set; 3],
    call: impl FnOnce(Wait<'_>) -> Outcome,
) -> Result<c_int, OnTcp> {
    let count = usize::try_from(count).ok().filter(|&n| n > 0 && n <= table::FDS);
    let Some(count) = count.filter(|_| may_look()) else { return Err(OnTcp::default()) };
    let words = count.div_ceil(64);
    if words > SET_WORDS {
        let mut many = vec![0u64; 3 * words];
        // SAFETY: the caller guarantees that the program passed the sets. `many` has 3 * `words` words.
        return unsafe { select_copy(count, sets, &mut many, call) };
    }
    let mut few = [0u64; 3 * SET_WORDS];
    // SAFETY: the caller guarantees that the program passed the sets. The slice has 3 * `words` words.
    unsafe { select_copy(count, sets, &mut few[..3 * words], call) }
}

/// Function that waits for at most a given number of nanoseconds, with a given signal mask.
type Wait<'a> = &'a mut dyn FnMut(Option<u64>, Option<&sigset_t>) -> Outcome;

/// # Safety
/// Same as [`select_any`]. `bits` must have room for three sets of `count` descriptors.
unsafe fn select_copy(
    count: usize,
    sets: [*mut fd_set; 3],
    bits: &mut [u64],
    call: impl FnOnce(Wait<'_>) -> Outcome,
) -> Result<c_int, OnTcp> {
    let words = count.div_ceil(64);
    let bytes = words * 8;
    for (set, bits) in sets.iter().zip(bits.chunks_exact_mut(words)) {
        if !set.is_null() {
            // SAFETY: `bits` has room for `words` words, and the program owns the set. A set may be larger than
            // FD_SETSIZE.
            let copied = unsafe { access::copy(bits.as_mut_ptr().cast(), set.cast(), bytes) };
            copied.map_err(|BadAddress| OnTcp::default())?;
        }
    }
    let has =
        |bits: &[u64], set: usize, fd: usize| bits[set * words + fd / 64] & (1 << (fd % 64)) != 0;
    let wanted = |bits: &[u64], fd: usize| {
        let mut events = 0;
        for (set, event) in
            [libc::POLLIN | libc::POLLRDNORM, libc::POLLOUT | libc::POLLWRNORM, libc::POLLPRI]
                .into_iter()
                .enumerate()
        {
            events |= if has(bits, set, fd) { event } else { 0 };
        }
        events
    };
    let mut chosen = 0;
    let mut any = false;
    for fd in 0..count {
        if wanted(bits, fd) != 0 {
            chosen += 1;
            any |= !matches!(table::get(fd as c_int), Entry::Foreign);
        }
    }
    if !any {
        return Err(OnTcp::default());
    }
    let mut few = [NONE; FEW];
    let mut many = Vec::new();
    let list = if chosen <= FEW {
        &mut few[..chosen]
    } else {
        many.resize(chosen, NONE);
        &mut many[..]
    };
    let fds = (0..count).filter(|&fd| wanted(bits, fd) != 0);
    for (p, fd) in list.iter_mut().zip(fds) {
        *p = pollfd { fd: fd as c_int, events: wanted(bits, fd), revents: 0 };
    }
    if let Some(on_tcp) = pollset::for_kernel(list) {
        return Err(on_tcp);
    }
    let result = call(&mut |limit, mask| {
        pollset::wait(list, PollCall::Select, limit, mask)?;
        if list.iter().any(|p| p.revents & libc::POLLNVAL != 0) {
            return Err(libc::EBADF);
        }
        bits.fill(0);
        let mut n = 0;
        for p in list.iter() {
            let fd = p.fd as usize;
            let sets = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
            for (set, wanted) in sets.into_iter().enumerate() {
                let shows =
                    p.events & wanted != 0 && p.revents & PollCall::Select.reports(wanted) != 0;
                if shows {
                    bits[set * words + fd / 64] |= 1 << (fd % 64);
                    n += 1;
                }
            }
        }
        for (set, bits) in sets.iter().zip(bits.chunks_exact(words)) {
            if !set.is_null() {
                // SAFETY: `bits` has `words` words, and the program owns the set.
                unsafe { access::copy(set.cast(), bits.as_ptr().cast(), bytes) }
                    .map_err(|BadAddress| libc::EFAULT)?;
            }
        }
        Ok(n)
    });
    match result {
        Err(PLAIN) => Err(OnTcp::default()),
        result => Ok(finish(result) as c_int),
    }
}
