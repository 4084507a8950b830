//! Tests of the calls that receive.

use super::{FIRST_PAGE, OUT_OF_RANGE, compare, entry, list, message};
use crate::tests::kernel::{Call, Scratch};
use libc::{c_int, iovec, msghdr, timespec};

fn read(fd: c_int, buffer: usize, len: usize) -> Call {
    (libc::SYS_read, [fd as usize, buffer, len, 0, 0, 0])
}

fn readv(fd: c_int, list: usize, count: c_int) -> Call {
    (libc::SYS_readv, [fd as usize, list, count as usize, 0, 0, 0])
}

fn recv(fd: c_int, buffer: usize, len: usize, how: c_int) -> Call {
    (libc::SYS_recvfrom, [fd as usize, buffer, len, how as usize, 0, 0])
}

/// Returns a call of `recv` for `LEN` bytes with the flags `HOW`.
fn recv_with<const HOW: c_int, const LEN: usize>(scratch: &mut Scratch, fd: c_int) -> Call {
    recv(fd, scratch.room(64), LEN, HOW)
}

fn recvmsg(fd: c_int, message: usize, how: c_int) -> Call {
    (libc::SYS_recvmsg, [fd as usize, message, how as usize, 0, 0, 0])
}

#[test]
fn read_takes_lengths_and_addresses_as_the_kernel_does() {
    compare(&[
        ("three bytes", |s, fd| read(fd, s.room(16), 3)),
        ("more than is unread", |s, fd| read(fd, s.room(16), 16)),
        ("nothing", |s, fd| read(fd, s.room(16), 0)),
        ("nothing to null", |_, fd| read(fd, 0, 0)),
        ("nothing to inaccessible memory", |s, fd| read(fd, s.end(), 0)),
        ("more than is mapped", |s, fd| read(fd, s.room(16), 1 << 30)),
        ("to the last byte of memory", |s, fd| read(fd, s.edge(10), 10)),
        ("a length of -1", |s, fd| read(fd, s.room(16), usize::MAX)),
        ("the greatest signed length", |s, fd| read(fd, s.room(16), isize::MAX as usize)),
        ("null", |_, fd| read(fd, 0, 4)),
        ("the first page", |_, fd| read(fd, FIRST_PAGE, 4)),
        ("inaccessible memory", |s, fd| read(fd, s.end(), 4)),
        ("an address out of range", |_, fd| read(fd, OUT_OF_RANGE, 4)),
        ("an address that wraps around", |_, fd| read(fd, usize::MAX - 4, 16)),
        ("a buffer of which four bytes are mapped", |s, fd| read(fd, s.edge(4), 10)),
    ]);
}

#[test]
#[ignore = "lengths beyond the end of a 47-bit address space are taken: the end of a 57-bit one is looked at"]
fn read_of_more_than_the_address_space_has_is_efault() {
    compare(&[("a terabyte", |s, fd| read(fd, s.room(16), 1 << 40))]);
}

#[test]
fn recv_takes_flags_as_the_kernel_does() {
    use libc::*;
    compare(&[
        ("none", recv_with::<0, 16>),
        ("MSG_DONTWAIT", recv_with::<MSG_DONTWAIT, 16>),
        ("MSG_PEEK", recv_with::<MSG_PEEK, 4>),
        ("MSG_PEEK of nothing", recv_with::<MSG_PEEK, 0>),
        ("nothing", recv_with::<0, 0>),
        ("MSG_PEEK, MSG_DONTWAIT", recv_with::<{ MSG_PEEK | MSG_DONTWAIT }, 16>),
        ("MSG_WAITALL of what is there", recv_with::<MSG_WAITALL, 10>),
        ("MSG_WAITALL, MSG_DONTWAIT", recv_with::<{ MSG_WAITALL | MSG_DONTWAIT }, 20>),
        ("MSG_WAITALL, MSG_PEEK", recv_with::<{ MSG_WAITALL | MSG_PEEK }, 10>),
        ("MSG_NOSIGNAL", recv_with::<MSG_NOSIGNAL, 16>),
        ("MSG_CMSG_CLOEXEC", recv_with::<MSG_CMSG_CLOEXEC, 16>),
        ("MSG_TRUNC", recv_with::<MSG_TRUNC, 4>),
        ("MSG_OOB", recv_with::<MSG_OOB, 4>),
        ("MSG_ERRQUEUE", recv_with::<MSG_ERRQUEUE, 4>),
        ("MSG_DONTROUTE", recv_with::<MSG_DONTROUTE, 4>),
        ("MSG_CTRUNC", recv_with::<MSG_CTRUNC, 4>),
        ("MSG_MORE", recv_with::<MSG_MORE, 4>),
        ("MSG_EOR", recv_with::<MSG_EOR, 4>),
        ("MSG_CONFIRM", recv_with::<MSG_CONFIRM, 4>),
        ("an unknown flag", recv_with::<0x0800_0000, 4>),
    ]);
}

#[test]
fn recv_takes_addresses_as_the_kernel_does() {
    compare(&[
        ("null", |_, fd| recv(fd, 0, 4, 0)),
        ("null, looked at", |_, fd| recv(fd, 0, 4, libc::MSG_PEEK)),
        ("inaccessible memory", |s, fd| recv(fd, s.end(), 4, 0)),
        ("an address out of range", |_, fd| recv(fd, OUT_OF_RANGE, 4, 0)),
        ("a buffer of which four bytes are mapped", |s, fd| recv(fd, s.edge(4), 10, 0)),
        ("the same, looked at", |s, fd| recv(fd, s.edge(4), 10, libc::MSG_PEEK)),
    ]);
}

#[test]
#[cfg_attr(
    target_arch = "aarch64",
    ignore = "EFAULT, for 2 GiB reach beyond the end of the address space: the end of a 57-bit one is looked at"
)]
fn recv_of_more_than_a_call_moves_is_shortened() {
    compare(&[
        ("-1", |s, fd| recv(fd, s.room(16), usize::MAX, 0)),
        ("the greatest signed length", |s, fd| recv(fd, s.room(16), isize::MAX as usize, 0)),
        ("-1, MSG_PEEK", |s, fd| recv(fd, s.room(16), usize::MAX, libc::MSG_PEEK)),
        ("-1 to null", |_, fd| recv(fd, 0, usize::MAX, libc::MSG_DONTWAIT)),
        ("-1 to an address out of range", |_, fd| recv(fd, OUT_OF_RANGE, usize::MAX, 0)),
    ]);
}

#[test]
fn recvfrom_takes_the_senders_address_as_the_kernel_does() {
    fn from(scratch: &mut Scratch, fd: c_int, address: usize, len: usize) -> Call {
        (libc::SYS_recvfrom, [fd as usize, scratch.room(16), 4, 0, address, len])
    }
    compare(&[
        ("an address and its length", |s, fd| {
            let (address, len) = (s.room(32), s.put(32i32));
            from(s, fd, address, len)
        }),
        ("no room for the address", |s, fd| {
            let (address, len) = (s.room(32), s.put(0i32));
            from(s, fd, address, len)
        }),
        ("a length of -1", |s, fd| {
            let (address, len) = (s.room(32), s.put(-1i32));
            from(s, fd, address, len)
        }),
        ("a length at an inaccessible address", |s, fd| {
            let (address, len) = (s.room(32), s.end());
            from(s, fd, address, len)
        }),
        ("no length", |s, fd| {
            let address = s.room(32);
            from(s, fd, address, 0)
        }),
        ("a length without an address", |s, fd| {
            let len = s.put(32i32);
            from(s, fd, 0, len)
        }),
        ("an inaccessible address", |s, fd| {
            let (address, len) = (s.end(), s.put(32i32));
            from(s, fd, address, len)
        }),
    ]);
}

#[test]
fn readv_takes_lists_as_the_kernel_does() {
    compare(&[
        ("no list of nothing", |_, fd| readv(fd, 0, 0)),
        ("no list of one", |_, fd| readv(fd, 0, 1)),
        ("an inaccessible list of nothing", |s, fd| readv(fd, s.end(), 0)),
        ("an inaccessible list", |s, fd| readv(fd, s.end(), 1)),
        ("a list out of range", |_, fd| readv(fd, OUT_OF_RANGE, 1)),
        ("-1 buffers", |s, fd| {
            let at = [(s.room(16), 16)];
            readv(fd, list(s, &at), -1)
        }),
        ("1,025 buffers", |s, fd| readv(fd, list(s, &[(0, 0); 600]), 1025)),
        ("the smallest number of buffers", |s, fd| readv(fd, s.room(16), c_int::MIN)),
        ("600 empty buffers", |s, fd| readv(fd, list(s, &[(0, 0); 600]), 600)),
        ("three buffers", |s, fd| {
            let at = [(s.room(4), 4), (s.room(0), 0), (s.room(16), 16)];
            readv(fd, list(s, &at), 3)
        }),
        ("nine buffers", |s, fd| {
            let at = s.room(16);
            let each: Vec<(usize, usize)> = (0..9).map(|i| (at + i, 1)).collect();
            readv(fd, list(s, &each), 9)
        }),
        ("a list that ends within an entry", |s, fd| {
            let entry = iovec { iov_base: s.room(16) as *mut _, iov_len: 4 };
            readv(fd, s.put_cut([entry; 2], 24), 2)
        }),
        ("a length of -1", |s, fd| {
            let at = [(s.room(16), usize::MAX)];
            readv(fd, list(s, &at), 1)
        }),
        ("two lengths that wrap around", |s, fd| {
            let at = s.room(16);
            readv(fd, list(s, &[(at, isize::MAX as usize), (at, isize::MAX as usize)]), 2)
        }),
        ("a bad buffer of length 0", |s, fd| {
            let at = [(s.end(), 0), (s.room(16), 4)];
            readv(fd, list(s, &at), 2)
        }),
        ("null as the first buffer", |s, fd| {
            let at = [(0, 4), (s.room(16), 4)];
            readv(fd, list(s, &at), 2)
        }),
        ("an inaccessible first buffer", |s, fd| {
            let at = [(s.end(), 4), (s.room(16), 4)];
            readv(fd, list(s, &at), 2)
        }),
        ("an inaccessible second buffer", |s, fd| {
            let at = [(s.room(16), 4), (s.end(), 4)];
            readv(fd, list(s, &at), 2)
        }),
        ("a second buffer out of range", |s, fd| {
            let at = [(s.room(16), 4), (OUT_OF_RANGE, 4)];
            readv(fd, list(s, &at), 2)
        }),
    ]);
}

#[test]
fn readv_of_lengths_that_add_up_to_too_much_is_efault() {
    compare(&[
        ("one", |s, fd| {
            let at = s.room(16);
            readv(fd, list(s, &[(at, 4), (at, isize::MAX as usize)]), 2)
        }),
        ("two", |s, fd| {
            let at = s.room(16);
            readv(fd, list(s, &[(at, 4), (at, isize::MAX as usize), (at, isize::MAX as usize)]), 3)
        }),
    ]);
}

#[test]
fn recvmsg_takes_headers_as_the_kernel_does() {
    fn with(
        scratch: &mut Scratch,
        fd: c_int,
        how: c_int,
        change: impl FnOnce(&mut Scratch, &mut msghdr),
    ) -> Call {
        let buffer = [(scratch.room(16), 16)];
        let mut header = message(list(scratch, &buffer), 1);
        change(scratch, &mut header);
        recvmsg(fd, scratch.put(header), how)
    }
    fn name(header: &mut msghdr, at: usize, len: u32) {
        (header.msg_name, header.msg_namelen) = (at as *mut _, len);
    }
    fn control(header: &mut msghdr, at: usize) {
        (header.msg_control, header.msg_controllen) = (at as *mut _, 64);
    }
    compare(&[
        ("one buffer", |s, fd| with(s, fd, 0, |_, _| {})),
        ("no message", |_, fd| recvmsg(fd, 0, 0)),
        ("an inaccessible message", |s, fd| recvmsg(fd, s.end(), 0)),
        ("a message that ends within memory", |s, fd| recvmsg(fd, s.put_cut(message(0, 0), 40), 0)),
        ("no buffers", |s, fd| {
            with(s, fd, 0, |_, header| (header.msg_iov, header.msg_iovlen) = (0 as _, 0))
        }),
        ("1,025 buffers", |s, fd| with(s, fd, 0, |_, header| header.msg_iovlen = 1025)),
        ("-1 buffers", |s, fd| with(s, fd, 0, |_, header| header.msg_iovlen = usize::MAX)),
        ("an inaccessible list", |s, fd| {
            with(s, fd, 0, |s, header| header.msg_iov = s.end() as *mut _)
        }),
        ("room for a name", |s, fd| with(s, fd, 0, |s, header| name(header, s.room(32), 32))),
        ("a name of length -1", |s, fd| {
            with(s, fd, 0, |s, header| name(header, s.room(32), u32::MAX))
        }),
        ("a length of -1 without a name", |s, fd| {
            with(s, fd, 0, |_, header| name(header, 0, u32::MAX))
        }),
        ("an inaccessible name", |s, fd| with(s, fd, 0, |s, header| name(header, s.end(), 32))),
        ("room for control messages", |s, fd| {
            with(s, fd, 0, |s, header| control(header, s.room(64)))
        }),
        ("a length of control messages without any", |s, fd| {
            with(s, fd, 0, |_, header| control(header, 0))
        }),
        ("inaccessible control messages", |s, fd| {
            with(s, fd, 0, |s, header| control(header, s.end()))
        }),
        ("flags that the program has left there", |s, fd| {
            with(s, fd, 0, |_, header| header.msg_flags = -1)
        }),
        ("MSG_PEEK", |s, fd| with(s, fd, libc::MSG_PEEK, |_, _| {})),
        ("MSG_DONTWAIT", |s, fd| with(s, fd, libc::MSG_DONTWAIT, |_, _| {})),
        ("MSG_CMSG_CLOEXEC", |s, fd| with(s, fd, libc::MSG_CMSG_CLOEXEC, |_, _| {})),
        ("MSG_TRUNC", |s, fd| with(s, fd, libc::MSG_TRUNC, |_, _| {})),
        ("MSG_ERRQUEUE", |s, fd| with(s, fd, libc::MSG_ERRQUEUE, |_, _| {})),
        ("the flag of 32-bit programs", |s, fd| with(s, fd, c_int::MIN, |_, _| {})),
    ]);
}

#[test]
fn recvmmsg_takes_counts_lists_and_time_outs_as_the_kernel_does() {
    fn with(
        scratch: &mut Scratch,
        fd: c_int,
        count: u32,
        how: c_int,
        timeout: impl FnOnce(&mut Scratch) -> usize,
    ) -> Call {
        let buffers = [(scratch.room(16), 4), (scratch.room(16), 16)];
        let at = list(scratch, &buffers);
        let list = scratch.put([entry(at, 1), entry(at + 16, 1)]);
        let timeout = timeout(scratch);
        (libc::SYS_recvmmsg, [fd as usize, list, count as usize, how as usize, timeout, 0])
    }
    fn time(tv_sec: i64, tv_nsec: i64) -> timespec {
        timespec { tv_sec, tv_nsec }
    }
    compare(&[
        ("none", |s, fd| with(s, fd, 0, 0, |_| 0)),
        ("one", |s, fd| with(s, fd, 1, 0, |_| 0)),
        ("two", |s, fd| with(s, fd, 2, 0, |_| 0)),
        ("two, MSG_DONTWAIT", |s, fd| with(s, fd, 2, libc::MSG_DONTWAIT, |_| 0)),
        ("two, MSG_WAITFORONE", |s, fd| with(s, fd, 2, libc::MSG_WAITFORONE, |_| 0)),
        ("two, MSG_PEEK", |s, fd| with(s, fd, 2, libc::MSG_PEEK, |_| 0)),
        ("a time-out of 0", |s, fd| with(s, fd, 2, 0, |s| s.put(time(0, 0)))),
        ("a time-out of a second's nanoseconds", |s, fd| {
            with(s, fd, 1, 0, |s| s.put(time(0, 1_000_000_000)))
        }),
        ("a time-out of -1 nanosecond", |s, fd| with(s, fd, 1, 0, |s| s.put(time(0, -1)))),
        ("a time-out of -1 second", |s, fd| with(s, fd, 1, 0, |s| s.put(time(-1, 0)))),
        ("an inaccessible time-out", |s, fd| with(s, fd, 1, 0, |s| s.end())),
        ("a time-out that ends within memory", |s, fd| with(s, fd, 1, 0, |s| s.edge(8))),
        ("a bad time-out for none", |s, fd| with(s, fd, 0, 0, |s| s.put(time(-1, 0)))),
        ("no list", |_, fd| (libc::SYS_recvmmsg, [fd as usize, 0, 1, 0, 0, 0])),
        ("an inaccessible list", |s, fd| (libc::SYS_recvmmsg, [fd as usize, s.end(), 1, 0, 0, 0])),
        ("an inaccessible list of none", |s, fd| {
            (libc::SYS_recvmmsg, [fd as usize, s.end(), 0, 0, 0, 0])
        }),
        ("a second entry that is inaccessible", |s, fd| {
            let buffer = [(s.room(16), 4)];
            let first = entry(list(s, &buffer), 1);
            let entries = s.put_cut(first, size_of_val(&first));
            (libc::SYS_recvmmsg, [fd as usize, entries, 2, 0, 0, 0])
        }),
    ]);
}
