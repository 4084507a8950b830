//! Tests that `syscall` gives the kernel's results for every system call, on connections and on other descriptors.

use super::kernel::{Call, Case, Differences, Scratch, closed_number, kernel};
use super::{Pair, by_number, start};
use libc::{c_int, c_long, pollfd};

/// Makes each call by the kernel and through the hook, on the same descriptor. Compares the results.
fn compare(calls: &[Case], fd: c_int) {
    start();
    let mut scratch = Scratch::new();
    let mut differences = Differences::default();
    for &case in calls {
        differences.compare(&mut scratch, case, [fd; 2], kernel, by_number);
    }
    differences.assert_none();
}

/// Makes each call on an end of a TCP connection without Sovia, and on an end of an accelerated connection. Each of
/// these two ends has unread bytes.
fn compare_accelerated(calls: &[Case]) {
    let pairs = [Pair::of_kernel(), Pair::accelerated()];
    let mut scratch = Scratch::new();
    let mut differences = Differences::default();
    for pair in &pairs {
        pair.send(0, b"0123456789");
        pair.await_bytes(1, 10);
    }
    for &case in calls {
        let fds = [pairs[0].fds[1], pairs[1].fds[1]];
        differences.compare(&mut scratch, case, fds, kernel, by_number);
        assert!(pairs[1].is_accelerated(), "{}", case.0);
    }
    differences.assert_none();
}

/// System calls whose first argument is a descriptor. With a closed descriptor, no call waits or changes anything.
const OF_DESCRIPTORS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_ioctl,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_shutdown,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_pidfd_getfd,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_signalfd4,
    libc::SYS_fsmount,
];

#[test]
fn calls_on_descriptors_that_are_not_open_have_the_kernels_errors() {
    start();
    let mut scratch = Scratch::new();
    let closed = closed_number();
    for fd in [closed, -1, c_int::MIN, c_int::MAX, (1 << 20) - 1, 1 << 20, 1 << 24] {
        for &number in OF_DESCRIPTORS {
            let arguments = [fd as usize, scratch.end(), 8, 0, 0, 0];
            let wanted = kernel((number, arguments));
            assert_eq!(by_number((number, arguments)), wanted, "system call {number} of {fd}");
        }
    }
    scratch.clear();
}

#[test]
fn upper_halves_of_descriptor_arguments_are_ignored_as_by_the_kernel() {
    start();
    let fds = super::pipe();
    let mut scratch = Scratch::new();
    let high = 0xdead_beef_0000_0000;
    let buffer = scratch.put(*b"four");
    let write = (libc::SYS_write, [high | fds[1] as usize, buffer, 4, 0, 0, 0]);
    let read = (libc::SYS_read, [high | fds[0] as usize, buffer, 4, 0, 0, 0]);
    assert_eq!([kernel(write), kernel(read)], [Ok(4), Ok(4)]);
    assert_eq!([by_number(write), by_number(read)], [Ok(4), Ok(4)]);
    super::close(fds);
}

#[test]
fn an_unknown_number_is_enosys() {
    start();
    for number in [9_999, -1] {
        let call = (number, [0; 6]);
        assert_eq!(kernel(call), Err(libc::ENOSYS));
        assert_eq!(by_number(call), Err(libc::ENOSYS));
    }
}

#[test]
fn all_six_arguments_reach_the_kernel() {
    start();
    // If an argument is lost, the mapping has no access rights, belongs to a file, or lies at another address.
    let page = Scratch::new();
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as usize;
    let access = libc::PROT_READ as usize;
    let taken = page.edge(4096);
    let call = (libc::SYS_mmap, [taken, 4096, access, flags, usize::MAX, 0]);
    assert_eq!(kernel(call), Err(libc::EEXIST));
    assert_eq!(by_number(call), Err(libc::EEXIST));
    let unaligned = (libc::SYS_mmap, [0, 4096, access, libc::MAP_PRIVATE as usize, 0, 1]);
    assert_eq!(kernel(unaligned), Err(libc::EINVAL));
    assert_eq!(by_number(unaligned), Err(libc::EINVAL));
}

#[test]
fn io_uring_setup_is_enosys() {
    start();
    let mut scratch = Scratch::new();
    let parameters = scratch.room(256);
    assert_eq!(
        by_number((libc::SYS_io_uring_setup, [4, parameters, 0, 0, 0, 0])),
        Err(libc::ENOSYS)
    );
}

fn one(scratch: &mut Scratch, fd: c_int) -> usize {
    scratch.put_with_number(pollfd { fd, events: libc::POLLIN, revents: 77 }, 0)
}

fn ppoll(scratch: &mut Scratch, fd: c_int, time: [i64; 2], mask: usize, size: usize) -> Call {
    let list = one(scratch, fd);
    (libc::SYS_ppoll, [list, 1, scratch.put(time), mask, size, 0])
}

/// Calls of `ppoll` and `pselect6` in which no descriptor becomes ready, or which the kernel refuses.
const WAITS: &[Case] = &[
    ("ppoll with a mask", |s, fd| {
        let mask = s.put(0u64);
        ppoll(s, fd, [0, 0], mask, 8)
    }),
    ("ppoll with a mask of 16 bytes", |s, fd| {
        let mask = s.put([0u64; 2]);
        ppoll(s, fd, [0, 0], mask, 16)
    }),
    ("ppoll with a mask of 4 bytes", |s, fd| {
        let mask = s.put(0u64);
        ppoll(s, fd, [0, 0], mask, 4)
    }),
    ("ppoll with a mask of no size", |s, fd| {
        let mask = s.put(0u64);
        ppoll(s, fd, [0, 0], mask, 0)
    }),
    ("ppoll with a size and no mask", |s, fd| ppoll(s, fd, [0, 0], 0, 16)),
    ("ppoll with an inaccessible mask", |s, fd| {
        let mask = s.end();
        ppoll(s, fd, [0, 0], mask, 8)
    }),
    ("ppoll with a mask in the first page", |s, fd| ppoll(s, fd, [0, 0], 16, 8)),
    ("ppoll with a mask of which four bytes are mapped", |s, fd| {
        let mask = s.edge(4);
        ppoll(s, fd, [0, 0], mask, 8)
    }),
    ("ppoll for -1 second", |s, fd| ppoll(s, fd, [-1, 0], 0, 8)),
    ("ppoll for -1 nanosecond", |s, fd| ppoll(s, fd, [0, -1], 0, 8)),
    ("ppoll for a second's nanoseconds", |s, fd| ppoll(s, fd, [0, 1_000_000_000], 0, 8)),
    ("ppoll with an inaccessible time-out", |s, fd| {
        let list = one(s, fd);
        (libc::SYS_ppoll, [list, 1, s.end(), 0, 8, 0])
    }),
    ("pselect6 without a mask", |s, _| (libc::SYS_pselect6, [0, 0, 0, 0, s.put([0i64; 2]), 0])),
    ("pselect6 with a mask", |s, _| {
        let mask = s.put(0u64);
        let argument = s.put([mask, 8]);
        (libc::SYS_pselect6, [0, 0, 0, 0, s.put([0i64; 2]), argument])
    }),
    ("pselect6 with a mask of 16 bytes", |s, _| {
        let mask = s.put([0u64; 2]);
        let argument = s.put([mask, 16]);
        (libc::SYS_pselect6, [0, 0, 0, 0, s.put([0i64; 2]), argument])
    }),
    ("pselect6 with an inaccessible mask", |s, _| {
        let argument = s.put([s.end(), 8]);
        (libc::SYS_pselect6, [0, 0, 0, 0, s.put([0i64; 2]), argument])
    }),
    ("pselect6 with an inaccessible argument", |s, _| {
        (libc::SYS_pselect6, [0, 0, 0, 0, s.put([0i64; 2]), s.end()])
    }),
    ("pselect6 for -1 second", |s, _| (libc::SYS_pselect6, [0, 0, 0, 0, s.put([-1i64, 0]), 0])),
    ("select for a microsecond", |s, _| (libc::SYS_select, [0, 0, 0, 0, s.put([0i64, 1]), 0])),
    ("select with an inaccessible time-out", |s, _| (libc::SYS_select, [0, 0, 0, 0, s.end(), 0])),
    ("epoll_pwait with a mask of 16 bytes", |s, _| {
        let (events, mask) = (s.room(12), s.put([0u64; 2]));
        (libc::SYS_epoll_pwait, [usize::MAX, events, 1, 0, mask, 16])
    }),
    ("epoll_pwait2 for a second's nanoseconds", |s, _| {
        let (events, time) = (s.room(12), s.put([0i64, 1_000_000_000]));
        (libc::SYS_epoll_pwait2, [usize::MAX, events, 1, time, 0, 8])
    }),
    ("poll without a list", |_, _| (libc::SYS_poll, [0, 1, 0, 0, 0, 0])),
];

#[test]
fn waits_take_masks_and_time_outs_as_the_kernel_does_on_a_pipe() {
    let fds = super::pipe();
    compare(WAITS, fds[0]);
    super::close(fds);
}

#[test]
fn waits_take_masks_and_time_outs_as_the_kernel_does_on_an_accelerated_connection() {
    compare_accelerated(WAITS);
}

/// Makes a call with a time-out of 30 seconds on a descriptor that is ready. Returns the time left that the call
/// stores, in nanoseconds.
fn time_left(fd: c_int, call: fn(&mut Scratch, c_int, usize) -> Call) -> i64 {
    let mut scratch = Scratch::new();
    let time = scratch.put([30i64, 0]);
    let call = call(&mut scratch, fd, time);
    assert_eq!(by_number(call), Ok(1));
    // SAFETY: `time` is the time-out that this function has stored.
    let [seconds, nanoseconds] = unsafe { (time as *const [i64; 2]).read() };
    seconds * 1_000_000_000 + nanoseconds
}

fn ppoll_for(scratch: &mut Scratch, fd: c_int, time: usize) -> Call {
    let list = one(scratch, fd);
    (libc::SYS_ppoll, [list, 1, time, 0, 8, 0])
}

fn pselect_for(scratch: &mut Scratch, fd: c_int, time: usize) -> Call {
    let mut bits = [0u64; 16];
    bits[fd as usize / 64] |= 1 << (fd % 64);
    let set = scratch.put(bits);
    (libc::SYS_pselect6, [fd as usize + 1, set, 0, 0, time, 0])
}

#[test]
fn ppoll_and_pselect6_store_the_time_left() {
    const LIMIT: i64 = 30_000_000_000;
    start();
    let fds = super::pipe();
    // SAFETY: the constant has one byte.
    assert_eq!(unsafe { libc::write(fds[1], b"x".as_ptr().cast(), 1) }, 1);
    let pair = Pair::accelerated();
    pair.send(0, b"x");
    pair.await_bytes(1, 1);
    for fd in [fds[0], pair.fds[1]] {
        for call in [ppoll_for, pselect_for] {
            let left = time_left(fd, call);
            assert!((1..LIMIT).contains(&left), "{left} left, for descriptor {fd}");
        }
    }
    super::close(fds);
}
