//! Tests of poll, select and epoll.

use super::{OUT_OF_RANGE, compare, compare_by};
use crate::tests::kernel::{Call, SYS_epoll_wait, SYS_poll, SYS_select, Scratch, closed_number};
use crate::tests::libcs;
use core::mem::offset_of;
use libc::{c_int, epoll_event, pollfd, sigset_t, timespec, timeval};

/// Stores a poll list with one entry, and returns the address of the list.
fn one(scratch: &mut Scratch, fd: c_int, events: i16) -> usize {
    scratch.put_with_number(pollfd { fd, events, revents: 77 }, offset_of!(pollfd, fd))
}

fn poll(list: usize, count: u64, timeout: c_int) -> Call {
    (SYS_poll, [list, count as usize, timeout as usize, 0, 0, 0])
}

fn poll_for<const EVENTS: i16>(scratch: &mut Scratch, fd: c_int) -> Call {
    poll(one(scratch, fd, EVENTS), 1, 0)
}

#[test]
fn poll_takes_events_as_the_kernel_does() {
    use libc::*;
    compare(&[
        ("nothing", poll_for::<0>),
        ("POLLIN", poll_for::<POLLIN>),
        ("POLLRDNORM", poll_for::<POLLRDNORM>),
        ("POLLRDBAND", poll_for::<POLLRDBAND>),
        ("POLLPRI", poll_for::<POLLPRI>),
        ("POLLOUT", poll_for::<POLLOUT>),
        ("POLLWRNORM", poll_for::<POLLWRNORM>),
        ("POLLWRBAND", poll_for::<POLLWRBAND>),
        ("POLLRDHUP", poll_for::<POLLRDHUP>),
        ("POLLERR, POLLHUP, POLLNVAL", poll_for::<{ POLLERR | POLLHUP | POLLNVAL }>),
        ("all", poll_for::<-1>),
    ]);
}

#[test]
fn poll_takes_lists_and_time_outs_as_the_kernel_does() {
    compare(&[
        ("a time-out of -1", |s, fd| poll(one(s, fd, libc::POLLIN), 1, -1)),
        ("the smallest time-out", |s, fd| poll(one(s, fd, libc::POLLIN), 1, c_int::MIN)),
        ("the greatest time-out", |s, fd| poll(one(s, fd, libc::POLLIN), 1, c_int::MAX)),
        ("an empty list", |s, fd| poll(one(s, fd, libc::POLLIN), 0, 0)),
        ("no list of none", |_, _| poll(0, 0, 0)),
        ("no list of one", |_, _| poll(0, 1, 0)),
        ("an inaccessible list", |s, _| poll(s.end(), 1, 0)),
        ("a list out of range", |_, _| poll(OUT_OF_RANGE, 1, 0)),
        ("more entries than descriptors", |s, fd| poll(one(s, fd, libc::POLLIN), 1 << 40, 0)),
        ("-1 entries", |s, fd| poll(one(s, fd, libc::POLLIN), u64::MAX, 0)),
        ("a descriptor of -1 beside it", |s, fd| {
            let list = one(s, fd, libc::POLLIN);
            s.put([pollfd { fd: -1, events: -1, revents: 77 }; 2]);
            poll(list, 4, 0)
        }),
        ("a closed descriptor beside it", |s, fd| {
            let list = one(s, fd, libc::POLLIN);
            let fd = closed_number();
            s.put_with_number([pollfd { fd, events: -1, revents: 77 }; 1], 0);
            poll(list, 3, 0)
        }),
        ("a descriptor out of range beside it", |s, fd| {
            let list = one(s, fd, libc::POLLIN);
            s.put([pollfd { fd: c_int::MAX, events: -1, revents: 77 }; 2]);
            poll(list, 3, 0)
        }),
        ("the same descriptor twice", |s, fd| {
            let list = one(s, fd, libc::POLLIN);
            s.put_with_number([pollfd { fd, events: libc::POLLOUT, revents: 77 }; 1], 0);
            poll(list, 3, 0)
        }),
        ("a list of which one entry is mapped", |s, fd| {
            let entry = pollfd { fd, events: libc::POLLIN, revents: 77 };
            poll(s.put_cut(entry, size_of::<pollfd>()), 2, 0)
        }),
    ]);
}

fn time(scratch: &mut Scratch, tv_sec: i64, tv_nsec: i64) -> usize {
    scratch.put(timespec { tv_sec, tv_nsec })
}

fn ppoll(scratch: &mut Scratch, fd: c_int, timeout: usize, mask: usize) -> Call {
    (libc::SYS_ppoll, [one(scratch, fd, libc::POLLIN), 1, timeout, mask, 0, 0])
}

/// Stores a mask of all signals, and returns the mask's address.
fn all_signals(scratch: &mut Scratch) -> usize {
    scratch.put([u64::MAX; size_of::<sigset_t>() / 8])
}

#[test]
fn ppoll_takes_time_outs_and_masks_as_libc_does() {
    compare_by(
        &[
            ("no time-out", |s, fd| ppoll(s, fd, 0, 0)),
            ("0", |s, fd| {
                let timeout = time(s, 0, 0);
                ppoll(s, fd, timeout, 0)
            }),
            ("more than there are nanoseconds", |s, fd| {
                let timeout = time(s, i64::MAX, 999_999_999);
                ppoll(s, fd, timeout, 0)
            }),
            ("a second's nanoseconds", |s, fd| {
                let timeout = time(s, 0, 1_000_000_000);
                ppoll(s, fd, timeout, 0)
            }),
            ("-1 nanosecond", |s, fd| {
                let timeout = time(s, 0, -1);
                ppoll(s, fd, timeout, 0)
            }),
            ("-1 second", |s, fd| {
                let timeout = time(s, -1, 0);
                ppoll(s, fd, timeout, 0)
            }),
            ("all signals masked", |s, fd| {
                let mask = all_signals(s);
                ppoll(s, fd, 0, mask)
            }),
            ("an inaccessible mask", |s, fd| {
                let mask = s.end();
                ppoll(s, fd, 0, mask)
            }),
            ("a mask of which four bytes are mapped", |s, fd| {
                let mask = s.edge(4);
                ppoll(s, fd, 0, mask)
            }),
        ],
        libcs,
    );
}

#[test]
fn ppoll_of_an_inaccessible_time_out_is_efault() {
    // This test calls the kernel without libc, because libc reads the time-out itself and would crash.
    compare(&[("an inaccessible time-out", |s, fd| {
        let timeout = s.end();
        ppoll(s, fd, timeout, 0)
    })]);
}

/// Stores a set with one descriptor. Excludes the set's words from the comparison, because the descriptors of the
/// two connections differ.
fn set(scratch: &mut Scratch, fd: c_int) -> usize {
    let mut bits = [0u64; 16];
    bits[fd as usize / 64] |= 1 << (fd % 64);
    let at = scratch.put(bits);
    for word in 0..32 {
        scratch.skip(at + 4 * word);
    }
    at
}

fn select(count: c_int, sets: [usize; 3], timeout: usize) -> Call {
    (SYS_select, [count as usize, sets[0], sets[1], sets[2], timeout, 0])
}

fn wait(scratch: &mut Scratch, tv_sec: i64, tv_usec: i64) -> usize {
    scratch.put(timeval { tv_sec, tv_usec })
}

#[test]
fn select_takes_sets_and_time_outs_as_libc_does() {
    compare_by(
        &[
            ("reading", |s, fd| select(fd + 1, [set(s, fd), 0, 0], wait(s, 0, 0))),
            ("writing", |s, fd| select(fd + 1, [0, set(s, fd), 0], wait(s, 0, 0))),
            ("exceptions", |s, fd| select(fd + 1, [0, 0, set(s, fd)], wait(s, 0, 0))),
            ("all", |s, fd| select(fd + 1, [set(s, fd), set(s, fd), set(s, fd)], wait(s, 0, 0))),
            ("no time-out", |s, fd| select(fd + 1, [set(s, fd), 0, 0], 0)),
            ("a count that leaves it out", |s, fd| select(fd, [set(s, fd), 0, 0], wait(s, 0, 0))),
            ("a count of 1,024", |s, fd| select(1024, [set(s, fd), 0, 0], wait(s, 0, 0))),
            ("a count of 0", |s, fd| select(0, [set(s, fd), 0, 0], wait(s, 0, 0))),
            ("a count of -1", |s, fd| select(-1, [set(s, fd), 0, 0], wait(s, 0, 0))),
            ("-1 second", |s, fd| select(fd + 1, [set(s, fd), 0, 0], wait(s, -1, 0))),
            ("-1 microsecond", |s, fd| select(fd + 1, [set(s, fd), 0, 0], wait(s, 0, -1))),
            ("an inaccessible set", |s, fd| {
                select(fd + 1, [set(s, fd), s.end(), 0], wait(s, 0, 0))
            }),
            ("a closed descriptor beside it", |s, fd| {
                let read = set(s, fd);
                let write = set(s, closed_number());
                select(1024, [read, write, 0], wait(s, 0, 0))
            }),
        ],
        libcs,
    );
}

#[test]
fn select_takes_as_many_seconds_and_microseconds_as_the_kernel_does() {
    /// Stores a time-out. Excludes the time left from the comparison.
    fn long(scratch: &mut Scratch, tv_sec: i64, tv_usec: i64) -> usize {
        let at = wait(scratch, tv_sec, tv_usec);
        (0..4).for_each(|word| scratch.skip(at + 4 * word));
        at
    }
    compare(&[
        ("a second's microseconds", |s, fd| {
            select(fd + 1, [set(s, fd), 0, 0], long(s, 0, 1_000_000))
        }),
        ("the most seconds", |s, fd| {
            select(fd + 1, [set(s, fd), 0, 0], long(s, i64::MAX, 999_999))
        }),
        // Only for x86-64: on other processors libc makes another system call, and cuts the microseconds to 32
        // bits.
        #[cfg(target_arch = "x86_64")]
        ("the most microseconds", |s, fd| select(fd + 1, [set(s, fd), 0, 0], long(s, 0, i64::MAX))),
    ]);
}

#[test]
fn pselect_takes_time_outs_and_masks_as_libc_does() {
    fn pselect(count: c_int, read: usize, timeout: usize, mask: usize) -> Call {
        (libc::SYS_pselect6, [count as usize, read, 0, 0, timeout, mask])
    }
    compare_by(
        &[
            ("no time-out", |s, fd| pselect(fd + 1, set(s, fd), 0, 0)),
            ("0", |s, fd| pselect(fd + 1, set(s, fd), time(s, 0, 0), 0)),
            ("a second's nanoseconds", |s, fd| {
                pselect(fd + 1, set(s, fd), time(s, 0, 1_000_000_000), 0)
            }),
            ("-1 nanosecond", |s, fd| pselect(fd + 1, set(s, fd), time(s, 0, -1), 0)),
            ("-1 second", |s, fd| pselect(fd + 1, set(s, fd), time(s, -1, 0), 0)),
            ("all signals masked", |s, fd| pselect(fd + 1, set(s, fd), 0, all_signals(s))),
            ("an inaccessible mask", |s, fd| pselect(fd + 1, set(s, fd), 0, s.end())),
        ],
        libcs,
    );
}

fn epoll() -> c_int {
    // SAFETY: the call takes only a number.
    let epfd = unsafe {
        crate::poll::epoll_create1(|flags| libc::epoll_create1(flags), libc::EPOLL_CLOEXEC)
    };
    assert!(epfd >= 0);
    epfd
}

fn control(epfd: c_int, op: c_int, fd: c_int, event: usize) -> Call {
    (libc::SYS_epoll_ctl, [epfd as usize, op as usize, fd as usize, event, 0, 0])
}

fn event(scratch: &mut Scratch, events: u32) -> usize {
    scratch.put(epoll_event { events, u64: 0x1122_3344_5566_7788 })
}

#[test]
fn epoll_ctl_takes_arguments_as_the_kernel_does() {
    use libc::*;
    compare(&[
        ("EPOLL_CTL_ADD", |s, fd| control(epoll(), EPOLL_CTL_ADD, fd, event(s, 1))),
        ("EPOLL_CTL_MOD of what is not there", |s, fd| {
            control(epoll(), EPOLL_CTL_MOD, fd, event(s, 1))
        }),
        ("EPOLL_CTL_DEL of what is not there", |_, fd| control(epoll(), EPOLL_CTL_DEL, fd, 0)),
        ("EPOLL_CTL_ADD without an event", |_, fd| control(epoll(), EPOLL_CTL_ADD, fd, 0)),
        ("EPOLL_CTL_ADD of an inaccessible event", |s, fd| {
            control(epoll(), EPOLL_CTL_ADD, fd, s.end())
        }),
        ("an operation of 0", |s, fd| control(epoll(), 0, fd, event(s, 1))),
        ("an operation of 4", |s, fd| control(epoll(), 4, fd, event(s, 1))),
        ("an operation of -1", |s, fd| control(epoll(), -1, fd, event(s, 1))),
        ("EPOLLEXCLUSIVE with EPOLLONESHOT", |s, fd| {
            control(epoll(), EPOLL_CTL_ADD, fd, event(s, (EPOLLEXCLUSIVE | EPOLLONESHOT) as u32))
        }),
        ("no instance", |s, fd| control(-1, EPOLL_CTL_ADD, fd, event(s, 1))),
        ("itself as the instance", |s, fd| control(fd, EPOLL_CTL_ADD, fd, event(s, 1))),
    ]);
}

#[test]
fn epoll_wait_takes_counts_and_addresses_as_the_kernel_does() {
    /// Adds `fd` to a new epoll instance, and returns a call of `epoll_wait` on this instance.
    fn wait(fd: c_int, events: usize, max: c_int, timeout: c_int) -> Call {
        let epfd = epoll();
        let mut entry = epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
        // SAFETY: the event is a variable of this function.
        let added = unsafe {
            crate::poll::epoll_ctl(
                |epfd, op, fd, event| libc::epoll_ctl(epfd, op, fd, event),
                epfd,
                libc::EPOLL_CTL_ADD,
                fd,
                &raw mut entry,
            )
        };
        assert_eq!(added, 0);
        (SYS_epoll_wait, [epfd as usize, events, max as usize, timeout as usize, 0, 0])
    }
    compare(&[
        ("one event", |s, fd| wait(fd, s.room(64), 1, 0)),
        ("a time-out of -1", |s, fd| wait(fd, s.room(64), 1, -1)),
        ("the smallest time-out", |s, fd| wait(fd, s.room(64), 1, c_int::MIN)),
        ("room for four", |s, fd| {
            let events = s.room(64);
            // Excludes the entries after the first from the comparison. The call returns one entry, and the others
            // may have any value.
            (3..12).for_each(|word| s.skip(events + 4 * word));
            wait(fd, events, 4, 0)
        }),
        ("no room", |s, fd| wait(fd, s.room(64), 0, 0)),
        ("room for -1", |s, fd| wait(fd, s.room(64), -1, 0)),
        ("room for more than can be", |s, fd| wait(fd, s.room(64), c_int::MAX, 0)),
        ("no array", |_, fd| wait(fd, 0, 1, 0)),
        ("an inaccessible array", |s, fd| wait(fd, s.end(), 1, 0)),
        ("an array of which one entry is mapped", |s, fd| wait(fd, s.edge(12), 4, 0)),
        ("an array of which half an entry is mapped", |s, fd| wait(fd, s.edge(6), 4, 0)),
    ]);
}
