//! poll, select and epoll.

use crate::boundary::{finish, is_bad, outcome};
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use sovia_sockets::table::{self, Entry};
use sovia_sockets::{epoll, pollset};

fn ns(ts: &timespec) -> Option<u64> {
    let (s, n) = (u64::try_from(ts.tv_sec).ok()?, u64::try_from(ts.tv_nsec).ok()?);
    (n < 1_000_000_000).then(|| s.saturating_mul(1_000_000_000).saturating_add(n))
}

fn ms(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|ms| ms * 1_000_000)
}

/// # Safety
/// `fds` must be valid for `count` entries.
unsafe fn pollfds<'a>(fds: *mut pollfd, count: nfds_t) -> &'a mut [pollfd] {
    // What cannot be a list of descriptors is the kernel's to refuse.
    if count == 0 || is_bad(fds) || count as usize > table::FDS {
        return &mut [];
    }
    // SAFETY: the caller's contract.
    unsafe { core::slice::from_raw_parts_mut(fds, count as usize) }
}

/// The epoll instance's index, if it is followed.
fn followed(epfd: c_int) -> Option<u32> {
    match table::get(epfd) {
        Entry::Epoll(index) => Some(index),
        _ => None,
    }
}

/// # Safety
/// `events` must be valid for `max` entries.
unsafe fn slice<'a>(events: *mut epoll_event, max: c_int) -> &'a mut [epoll_event] {
    if max <= 0 || is_bad(events) {
        return &mut [];
    }
    // SAFETY: the caller's contract.
    unsafe { core::slice::from_raw_parts_mut(events, max as usize) }
}

/// A wait on a followed instance; `kernel` makes the real call.
///
/// # Safety
/// `events` must be valid for `max` entries, `mask` null or valid.
unsafe fn epoll_any(
    index: u32,
    events: *mut epoll_event,
    max: c_int,
    timeout: Option<u64>,
    mask: *const sigset_t,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let (out, mask) = unsafe { (slice(events, max), mask.as_ref()) };
    if out.is_empty() || !epoll::is_ours(index) {
        let n = kernel();
        if n <= 0 || out.is_empty() {
            return n;
        }
        let kept = epoll::filter(&mut out[..n as usize]);
        if kept > 0 || timeout == Some(0) {
            return kept as c_int;
        }
        // Only our own doorbell: a connection was attached meanwhile.
    }
    finish(epoll::wait(index, out, timeout, mask)) as c_int
}

calls! {
    fn poll(real, fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        // SAFETY: poll's own contract.
        let list = pollfds(fds, count);
        if !pollset::is_ours(list) {
            return real(fds, count, timeout);
        }
        finish(pollset::wait(list, ms(timeout), None)) as c_int
    }

    fn ppoll(real,
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: ppoll's own contract.
        let list = pollfds(fds, count);
        if !pollset::is_ours(list) {
            return real(fds, count, timeout, mask);
        }
        let timeout = match timeout.as_ref() {
            None => None,
            Some(ts) => match ns(ts) {
                Some(ns) => Some(ns),
                None => return finish(Err(libc::EINVAL)) as c_int,
            },
        };
        finish(pollset::wait(list, timeout, mask.as_ref())) as c_int
    }

    fn select(real,
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        // SAFETY: select's own contract.
        let mut sets = Sets::new(count, read, write, except);
        if !sets.list.as_deref().is_some_and(pollset::is_ours) {
            return real(count, read, write, except, timeout);
        }
        let time = timeout.as_mut();
        let limit = match &time {
            None => None,
            Some(tv) if tv.tv_sec < 0 || tv.tv_usec < 0 => {
                return finish(Err(libc::EINVAL)) as c_int;
            }
            Some(tv) => Some(
                (tv.tv_sec as u64).saturating_mul(1_000_000_000)
                    .saturating_add(tv.tv_usec as u64 * 1000),
            ),
        };
        let begun = sovia_now();
        let result = sets.wait(limit, None);
        // Linux tells how much time was left.
        if let (Some(tv), Some(limit)) = (time, limit) {
            let left = limit.saturating_sub(sovia_now() - begun);
            tv.tv_sec = (left / 1_000_000_000) as _;
            tv.tv_usec = (left % 1_000_000_000 / 1000) as _;
        }
        result
    }

    fn pselect(real,
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: pselect's own contract.
        let mut sets = Sets::new(count, read, write, except);
        if !sets.list.as_deref().is_some_and(pollset::is_ours) {
            return real(count, read, write, except, timeout, mask);
        }
        let limit = match timeout.as_ref() {
            None => None,
            Some(ts) => match ns(ts) {
                Some(ns) => Some(ns),
                None => return finish(Err(libc::EINVAL)) as c_int,
            },
        };
        sets.wait(limit, mask.as_ref())
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
        let wanted =
            if is_bad(event) { None } else { event.as_ref().map(|event| (event.events, event.u64)) };
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
        let limit = timeout.as_ref().map(ns);
        match (followed(epfd), limit) {
            // A time that makes no sense is the kernel's to refuse.
            (Some(index), None | Some(Some(_))) => {
                epoll_any(index, events, max, limit.flatten(), mask, kernel)
            }
            _ => kernel(),
        }
    }
}

fn sovia_now() -> u64 {
    sovia_sockets::wait::now_ns()
}

/// select's three sets as a list for poll.
struct Sets {
    list: Option<Vec<pollfd>>,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
}

fn has(set: *const fd_set, fd: usize) -> bool {
    // SAFETY: a set that is not null has room for every descriptor below the call's count. (glibc's
    // macro would abort beyond FD_SETSIZE; programs do allocate larger sets.)
    !set.is_null() && unsafe { *set.cast::<u64>().add(fd / 64) } & (1 << (fd % 64)) != 0
}

fn put(set: *mut fd_set, fd: usize) {
    // SAFETY: as for `has`.
    unsafe { *set.cast::<u64>().add(fd / 64) |= 1 << (fd % 64) };
}

fn clear(set: *mut fd_set, fd: usize) {
    // SAFETY: as for `has`.
    unsafe { *set.cast::<u64>().add(fd / 64) &= !(1 << (fd % 64)) };
}

impl Sets {
    /// # Safety
    /// Each set must be null or hold `count` bits.
    unsafe fn new(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
    ) -> Sets {
        let mut sets = Sets { list: None, read, write, except };
        let count = usize::try_from(count).unwrap_or(0);
        // Only if one of the descriptors is ours is the list worth making.
        let any = (0..count).any(|fd| {
            (has(read, fd) || has(write, fd) || has(except, fd))
                && !matches!(table::get(fd as c_int), Entry::Foreign)
        });
        if any {
            let list = (0..count).filter_map(|fd| {
                let mut events = 0;
                if has(read, fd) {
                    events |= libc::POLLIN | libc::POLLRDNORM;
                }
                if has(write, fd) {
                    events |= libc::POLLOUT | libc::POLLWRNORM;
                }
                if has(except, fd) {
                    events |= libc::POLLPRI;
                }
                (events != 0).then_some(pollfd { fd: fd as c_int, events, revents: 0 })
            });
            sets.list = Some(list.collect());
        }
        sets
    }

    fn wait(&mut self, limit: Option<u64>, mask: Option<&sigset_t>) -> c_int {
        let Some(list) = &mut self.list else { return -1 };
        if let Err(e) = pollset::wait(list, limit, mask) {
            return finish(Err(e)) as c_int;
        }
        if list.iter().any(|p| p.revents & libc::POLLNVAL != 0) {
            return finish(Err(libc::EBADF)) as c_int;
        }
        let mut n = 0;
        for p in list.iter() {
            let fd = p.fd as usize;
            let ends = libc::POLLHUP | libc::POLLERR;
            for (set, wanted, holds) in [
                (self.read, libc::POLLIN, p.revents & (libc::POLLIN | ends) != 0),
                (self.write, libc::POLLOUT, p.revents & (libc::POLLOUT | libc::POLLERR) != 0),
                (self.except, libc::POLLPRI, p.revents & libc::POLLPRI != 0),
            ] {
                if p.events & wanted != 0 {
                    if holds {
                        put(set, fd);
                        n += 1;
                    } else {
                        clear(set, fd);
                    }
                }
            }
        }
        n
    }
}
