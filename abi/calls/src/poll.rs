//! poll, select and epoll.

use crate::boundary::{finish, give, may_look, outcome, take, take_if, take_mask};
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use sovia_signal::access::{self, BadAddress, Fault};
use sovia_sockets::process::PLAIN;
use sovia_sockets::table::{self, Entry};
use sovia_sockets::{Errno, Outcome, epoll, pollset};

fn ns(ts: &timespec) -> Option<u64> {
    let (s, n) = (u64::try_from(ts.tv_sec).ok()?, u64::try_from(ts.tv_nsec).ok()?);
    (n < 1_000_000_000).then(|| s.saturating_mul(1_000_000_000).saturating_add(n))
}

fn ms(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|ms| ms * 1_000_000)
}

/// The epoll instance's index, if it is followed.
fn followed(epfd: c_int) -> Option<u32> {
    match table::get(epfd) {
        Entry::Epoll(index) => Some(index),
        _ => None,
    }
}

/// The program's array of events, as far as it can be written, if that is an entry at least.
///
/// # Safety
/// What can be written of `max` entries is the caller's to write.
unsafe fn slice<'a>(events: *mut epoll_event, max: c_int) -> Option<&'a mut [epoll_event]> {
    let max = usize::try_from(max).ok()?;
    let is_there = |i: usize| {
        let event = events.wrapping_add(i);
        // SAFETY: any bits are an event, which is put back as it was.
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
    // SAFETY: the caller's contract; just tried.
    Some(if max == 0 { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(events, count) } })
}

/// A wait on a followed instance; `kernel` makes the real call.
///
/// # Safety
/// As for [`slice`].
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
    if !epoll::is_ours(index)
        && let Some(kernel) = kernel.take()
    {
        let n = kernel();
        if n <= 0 {
            return n;
        }
        // SAFETY: the kernel has just written them.
        let kept = epoll::filter(unsafe { core::slice::from_raw_parts_mut(events, n as usize) });
        if kept > 0 || timeout == Some(0) {
            return kept as c_int;
        }
        // Only our own doorbell: a connection was attached meanwhile.
    }
    // SAFETY: the caller's contract.
    let (out, mask) = match unsafe { (slice(events, max), take_mask(mask)) } {
        (Some(out), Ok(mask)) => (out, mask),
        _ => return finish(Err(libc::EFAULT)) as c_int,
    };
    match epoll::wait(index, out, timeout, mask.as_ref()) {
        Err(PLAIN) => kernel.take().map_or(0, |kernel| kernel()),
        result => finish(result) as c_int,
    }
}

/// Descriptors in a list that needs no memory of the heap.
const FEW: usize = 32;

const NONE: pollfd = pollfd { fd: -1, events: 0, revents: 0 };

/// `poll` and its relatives with a copy of the program's list, if one of the descriptors is ours;
/// `None` if the call is the kernel's. The time-out and the mask are looked at only then.
///
/// # Safety
/// The pointers must be what the program has passed.
unsafe fn poll_any(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: impl FnOnce() -> Result<Option<u64>, Errno>,
    mask: *const sigset_t,
) -> Option<c_int> {
    // What cannot be a list of descriptors is the kernel's to refuse.
    if count == 0 || count as usize > table::FDS || !may_look() {
        return None;
    }
    let count = count as usize;
    if count > FEW {
        let mut many = vec![NONE; count];
        // SAFETY: the caller's contract.
        return unsafe { poll_copy(fds, &mut many, timeout, mask) };
    }
    let mut few = [NONE; FEW];
    // SAFETY: as above.
    unsafe { poll_copy(fds, &mut few[..count], timeout, mask) }
}

/// # Safety
/// As for [`poll_any`].
unsafe fn poll_copy(
    fds: *mut pollfd,
    list: &mut [pollfd],
    timeout: impl FnOnce() -> Result<Option<u64>, Errno>,
    mask: *const sigset_t,
) -> Option<c_int> {
    // SAFETY: the list has room for that; the program's entries are plain data.
    unsafe { access::copy(list.as_mut_ptr().cast(), fds.cast(), size_of_val(list)) }.ok()?;
    if !pollset::is_ours(list) {
        return None;
    }
    // SAFETY: as above.
    let result = timeout()
        .and_then(|timeout| Ok((timeout, unsafe { take_mask(mask) }?)))
        .and_then(|(timeout, mask)| pollset::wait(list, timeout, mask.as_ref()));
    if result == Err(PLAIN) {
        return None;
    }
    if result.is_ok() {
        let mut fault = Fault::none();
        for (i, p) in list.iter().enumerate() {
            let to = fds.wrapping_add(i);
            // SAFETY: only the field's address is computed, and stored to as the program's.
            unsafe {
                access::store_word((&raw mut (*to).revents).cast(), p.revents as u16, &mut fault)
            };
        }
        if fault.check().is_err() {
            return Some(finish(Err(libc::EFAULT)) as c_int);
        }
    }
    Some(finish(result) as c_int)
}

/// A time-out that the program points to.
///
/// # Safety
/// The pointer must be what the program has passed.
unsafe fn limit(timeout: *const timespec) -> Result<Option<u64>, Errno> {
    // SAFETY: plain numbers.
    match unsafe { take_if(timeout) }? {
        None => Ok(None),
        Some(time) => ns(&time).map(Some).ok_or(libc::EINVAL),
    }
}

calls! {
    fn poll(real, fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        poll_any(fds, count, || Ok(ms(timeout)), core::ptr::null())
            .unwrap_or_else(|| real(fds, count, timeout))
    }

    fn ppoll(real,
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        poll_any(fds, count, || limit(timeout), mask)
            .unwrap_or_else(|| real(fds, count, timeout, mask))
    }

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
                        .saturating_add(tv.tv_usec as u64 * 1000),
                ),
            };
            let begun = sovia_now();
            let result = wait(limit, None);
            // Linux tells how much time was left, if it can.
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
        .unwrap_or_else(|| real(count, read, write, except, timeout))
    }

    fn pselect(real,
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        select_any(count, [read, write, except], |wait| wait(limit(timeout)?, take_mask(mask)?.as_ref()))
            .unwrap_or_else(|| real(count, read, write, except, timeout, mask))
    }

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
        match followed(epfd) {
            Some(index) => epoll_any(index, events, max, ms(timeout), core::ptr::null(), kernel),
            None => kernel(),
        }
    }

    fn epoll_pwait(real,
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t,
    ) -> c_int {
        let kernel = || real(epfd, events, max, timeout, mask);
        match followed(epfd) {
            // SAFETY: epoll_pwait's own contract.
            Some(index) => epoll_any(index, events, max, ms(timeout), mask, kernel),
            None => kernel(),
        }
    }

    fn epoll_pwait2(real,
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        let kernel = || real(epfd, events, max, timeout, mask);
        let Some(index) = followed(epfd) else { return kernel() };
        match limit(timeout) {
            Ok(limit) => epoll_any(index, events, max, limit, mask, kernel),
            // A time that makes no sense is the kernel's to refuse.
            Err(_) => kernel(),
        }
    }
}

fn sovia_now() -> u64 {
    sovia_sockets::wait::now_ns()
}

/// Words of sets that need no memory of the heap: those of FD_SETSIZE.
const SET_WORDS: usize = 1024 / 64;

/// `select` and its relatives with copies of the program's sets, if one of the descriptors is ours;
/// `None` if the call is the kernel's. `call` decides how long is waited.
///
/// # Safety
/// The pointers must be what the program has passed.
unsafe fn select_any(
    count: c_int,
    sets: [*mut fd_set; 3],
    call: impl FnOnce(Wait<'_>) -> Outcome,
) -> Option<c_int> {
    let count = usize::try_from(count).ok().filter(|&n| n > 0 && n <= table::FDS)?;
    if !may_look() {
        return None;
    }
    let words = count.div_ceil(64);
    if words > SET_WORDS {
        let mut many = vec![0u64; 3 * words];
        // SAFETY: the caller's contract.
        return unsafe { select_copy(count, sets, &mut many, call) };
    }
    let mut few = [0u64; 3 * SET_WORDS];
    // SAFETY: as above.
    unsafe { select_copy(count, sets, &mut few[..3 * words], call) }
}

/// Waits for so many nanoseconds at most, with that signal mask.
type Wait<'a> = &'a mut dyn FnMut(Option<u64>, Option<&sigset_t>) -> Outcome;

/// # Safety
/// As for [`select_any`]; `bits` has three times the words that `count` descriptors take.
unsafe fn select_copy(
    count: usize,
    sets: [*mut fd_set; 3],
    bits: &mut [u64],
    call: impl FnOnce(Wait<'_>) -> Outcome,
) -> Option<c_int> {
    let words = count.div_ceil(64);
    let bytes = words * 8;
    for (set, bits) in sets.iter().zip(bits.chunks_exact_mut(words)) {
        if !set.is_null() {
            // SAFETY: as many words as there is room for. (glibc's macros would abort beyond
            // FD_SETSIZE; programs do allocate larger sets.)
            unsafe { access::copy(bits.as_mut_ptr().cast(), set.cast(), bytes) }.ok()?;
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
        return None;
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
    if !pollset::is_ours(list) {
        return None;
    }
    let result = call(&mut |limit, mask| {
        pollset::wait(list, limit, mask)?;
        if list.iter().any(|p| p.revents & libc::POLLNVAL != 0) {
            return Err(libc::EBADF);
        }
        bits.fill(0);
        let mut n = 0;
        for p in list.iter() {
            let fd = p.fd as usize;
            let ends = libc::POLLHUP | libc::POLLERR;
            for (set, (wanted, shows)) in [
                (libc::POLLIN, libc::POLLIN | ends),
                (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
                (libc::POLLPRI, libc::POLLPRI),
            ]
            .into_iter()
            .enumerate()
            {
                if p.events & wanted != 0 && p.revents & shows != 0 {
                    bits[set * words + fd / 64] |= 1 << (fd % 64);
                    n += 1;
                }
            }
        }
        for (set, bits) in sets.iter().zip(bits.chunks_exact(words)) {
            if !set.is_null() {
                // SAFETY: as above.
                unsafe { access::copy(set.cast(), bits.as_ptr().cast(), bytes) }
                    .map_err(|BadAddress| libc::EFAULT)?;
            }
        }
        Ok(n)
    });
    match result {
        Err(PLAIN) => None,
        result => Some(finish(result) as c_int),
    }
}
