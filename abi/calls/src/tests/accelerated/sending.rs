//! Tests of the calls that send, and of shutdown.

use super::{FIRST_PAGE, OUT_OF_RANGE, compare, compare_fresh, entry, list, message};
use crate::tests::kernel::{Call, Scratch};
use libc::{c_int, iovec, msghdr, sockaddr_in};

fn write(fd: c_int, buffer: usize, len: usize) -> Call {
    (libc::SYS_write, [fd as usize, buffer, len, 0, 0, 0])
}

fn writev(fd: c_int, list: usize, count: c_int) -> Call {
    (libc::SYS_writev, [fd as usize, list, count as usize, 0, 0, 0])
}

fn send(fd: c_int, buffer: usize, len: usize, how: c_int) -> Call {
    (libc::SYS_sendto, [fd as usize, buffer, len, how as usize, 0, 0])
}

/// Returns a call of `send` for `LEN` bytes with the flags `HOW`.
fn send_with<const HOW: c_int, const LEN: usize>(scratch: &mut Scratch, fd: c_int) -> Call {
    send(fd, scratch.put(*b"what is sent, with flags"), LEN, HOW)
}

#[test]
fn write_takes_lengths_and_addresses_as_the_kernel_does() {
    compare(&[
        ("four bytes", |s, fd| write(fd, s.put(*b"four"), 4)),
        ("nothing", |s, fd| write(fd, s.room(16), 0)),
        ("nothing from null", |_, fd| write(fd, 0, 0)),
        ("nothing from inaccessible memory", |s, fd| write(fd, s.end(), 0)),
        ("up to the last byte of memory", |s, fd| write(fd, s.put_cut(*b"0123", 4), 4)),
        ("a length of -1", |s, fd| write(fd, s.room(16), usize::MAX)),
        ("the greatest signed length", |s, fd| write(fd, s.room(16), isize::MAX as usize)),
        ("null", |_, fd| write(fd, 0, 4)),
        ("the first page", |_, fd| write(fd, FIRST_PAGE, 4)),
        ("inaccessible memory", |s, fd| write(fd, s.end(), 4)),
        ("an address out of range", |_, fd| write(fd, OUT_OF_RANGE, 4)),
        ("an address that wraps around", |_, fd| write(fd, usize::MAX - 4, 16)),
        ("a buffer of which four bytes are mapped", |s, fd| write(fd, s.edge(4), 10)),
    ]);
}

#[test]
fn send_takes_flags_as_the_kernel_does() {
    use libc::*;
    compare(&[
        ("none", send_with::<0, 16>),
        ("MSG_DONTWAIT", send_with::<MSG_DONTWAIT, 16>),
        ("MSG_NOSIGNAL", send_with::<MSG_NOSIGNAL, 16>),
        ("MSG_EOR", send_with::<MSG_EOR, 16>),
        ("MSG_CONFIRM", send_with::<MSG_CONFIRM, 16>),
        ("MSG_DONTROUTE", send_with::<MSG_DONTROUTE, 16>),
        ("MSG_WAITALL", send_with::<MSG_WAITALL, 16>),
        ("nothing", send_with::<0, 0>),
        ("MSG_TRUNC", send_with::<MSG_TRUNC, 4>),
        ("MSG_CTRUNC", send_with::<MSG_CTRUNC, 4>),
        ("MSG_ERRQUEUE", send_with::<MSG_ERRQUEUE, 4>),
        ("MSG_ZEROCOPY without SO_ZEROCOPY", send_with::<MSG_ZEROCOPY, 4>),
        ("an unknown flag", send_with::<0x0800_0000, 4>),
    ]);
}

#[test]
fn send_takes_addresses_as_the_kernel_does() {
    compare(&[
        ("null", |_, fd| send(fd, 0, 4, 0)),
        ("inaccessible memory", |s, fd| send(fd, s.end(), 4, 0)),
        ("an address out of range", |_, fd| send(fd, OUT_OF_RANGE, 4, 0)),
        ("a buffer of which four bytes are mapped", |s, fd| send(fd, s.edge(4), 10, 0)),
        ("nothing from null", |_, fd| send(fd, 0, 0, 0)),
    ]);
}

#[test]
fn sendto_takes_a_receivers_address_as_the_kernel_does() {
    fn to(scratch: &mut Scratch, fd: c_int, address: usize, len: c_int) -> Call {
        let buffer = scratch.put(*b"four");
        (libc::SYS_sendto, [fd as usize, buffer, 4, 0, address, len as usize])
    }
    fn address(scratch: &mut Scratch) -> usize {
        // SAFETY: all zeros are a valid `sockaddr_in`.
        scratch.put(unsafe { core::mem::zeroed::<sockaddr_in>() })
    }
    compare(&[
        ("an address", |s, fd| {
            let address = address(s);
            to(s, fd, address, 16)
        }),
        ("an address of length 0", |s, fd| {
            let address = address(s);
            to(s, fd, address, 0)
        }),
        ("an address of length -1", |s, fd| {
            let address = address(s);
            to(s, fd, address, -1)
        }),
        ("an address of 128 bytes", |s, fd| {
            let address = s.room(128);
            to(s, fd, address, 128)
        }),
        ("an address of 129 bytes", |s, fd| {
            let address = s.room(144);
            to(s, fd, address, 129)
        }),
        ("an inaccessible address", |s, fd| {
            let address = s.end();
            to(s, fd, address, 16)
        }),
        ("an inaccessible address of length 0", |s, fd| {
            let address = s.end();
            to(s, fd, address, 0)
        }),
        ("an address of which four bytes are mapped", |s, fd| {
            let address = s.edge(4);
            to(s, fd, address, 16)
        }),
        ("a length without an address", |s, fd| to(s, fd, 0, 16)),
    ]);
}

#[test]
fn writev_takes_lists_as_the_kernel_does() {
    compare(&[
        ("no list of nothing", |_, fd| writev(fd, 0, 0)),
        ("no list of one", |_, fd| writev(fd, 0, 1)),
        ("an inaccessible list", |s, fd| writev(fd, s.end(), 1)),
        ("-1 buffers", |s, fd| writev(fd, s.room(16), -1)),
        ("1,025 buffers", |s, fd| writev(fd, list(s, &[(0, 0); 600]), 1025)),
        ("600 empty buffers", |s, fd| writev(fd, list(s, &[(0, 0); 600]), 600)),
        ("three buffers", |s, fd| {
            let at = [(s.put(*b"abcd"), 4), (s.room(0), 0), (s.put(*b"efgh"), 2)];
            writev(fd, list(s, &at), 3)
        }),
        ("nine buffers", |s, fd| {
            let at = s.put(*b"ninebytes");
            let each: Vec<(usize, usize)> = (0..9).map(|i| (at + i, 1)).collect();
            writev(fd, list(s, &each), 9)
        }),
        ("a list that ends within an entry", |s, fd| {
            let entry = iovec { iov_base: s.room(16) as *mut _, iov_len: 4 };
            writev(fd, s.put_cut([entry; 2], 24), 2)
        }),
        ("a length of -1", |s, fd| {
            let at = [(s.room(16), usize::MAX)];
            writev(fd, list(s, &at), 1)
        }),
        ("null as the first buffer", |s, fd| {
            let at = [(0, 4), (s.room(16), 4)];
            writev(fd, list(s, &at), 2)
        }),
        ("a second buffer out of range", |s, fd| {
            let at = [(s.put(*b"abcd"), 4), (OUT_OF_RANGE, 4)];
            writev(fd, list(s, &at), 2)
        }),
    ]);
}

#[test]
fn writev_of_a_negative_length_behind_a_bad_address_is_einval() {
    compare(&[
        ("behind an address out of range", |s, fd| {
            let at = [(OUT_OF_RANGE, 4), (s.room(16), usize::MAX)];
            writev(fd, list(s, &at), 2)
        }),
        ("an address out of range behind it", |s, fd| {
            let at = [(s.room(16), usize::MAX), (OUT_OF_RANGE, 4)];
            writev(fd, list(s, &at), 2)
        }),
        ("behind nine of them", |s, fd| {
            let mut at = [(OUT_OF_RANGE, 4); 10];
            at[9].1 = 1 << 63;
            writev(fd, list(s, &at), 10)
        }),
    ]);
}

#[test]
fn writev_sends_what_is_before_an_inaccessible_buffer_as_the_kernel_does() {
    compare(&[("an inaccessible second buffer", |s, fd| {
        let at = [(s.put(*b"abcd"), 4), (s.end(), 4)];
        writev(fd, list(s, &at), 2)
    })]);
}

#[test]
fn sendmsg_takes_headers_as_the_kernel_does() {
    fn with(
        scratch: &mut Scratch,
        fd: c_int,
        how: c_int,
        change: impl FnOnce(&mut Scratch, &mut msghdr),
    ) -> Call {
        let buffer = [(scratch.put(*b"message"), 7)];
        let mut header = message(list(scratch, &buffer), 1);
        change(scratch, &mut header);
        sendmsg(fd, scratch.put(header), how)
    }
    fn sendmsg(fd: c_int, message: usize, how: c_int) -> Call {
        (libc::SYS_sendmsg, [fd as usize, message, how as usize, 0, 0, 0])
    }
    fn name(header: &mut msghdr, at: usize, len: u32) {
        (header.msg_name, header.msg_namelen) = (at as *mut _, len);
    }
    compare(&[
        ("one buffer", |s, fd| with(s, fd, 0, |_, _| {})),
        ("no message", |_, fd| sendmsg(fd, 0, 0)),
        ("an inaccessible message", |s, fd| sendmsg(fd, s.end(), 0)),
        ("a message that ends within memory", |s, fd| sendmsg(fd, s.put_cut(message(0, 0), 40), 0)),
        ("no buffers", |s, fd| {
            with(s, fd, 0, |_, header| (header.msg_iov, header.msg_iovlen) = (0 as _, 0))
        }),
        ("1,025 buffers", |s, fd| with(s, fd, 0, |_, header| header.msg_iovlen = 1025)),
        ("-1 buffers", |s, fd| with(s, fd, 0, |_, header| header.msg_iovlen = usize::MAX)),
        ("an inaccessible list", |s, fd| {
            with(s, fd, 0, |s, header| header.msg_iov = s.end() as *mut _)
        }),
        ("a name", |s, fd| with(s, fd, 0, |s, header| name(header, s.room(32), 32))),
        ("a name of 200 bytes", |s, fd| with(s, fd, 0, |s, header| name(header, s.room(208), 200))),
        ("a name of length -1", |s, fd| {
            with(s, fd, 0, |s, header| name(header, s.room(32), u32::MAX))
        }),
        ("a length of -1 without a name", |s, fd| {
            with(s, fd, 0, |_, header| name(header, 0, u32::MAX))
        }),
        ("an inaccessible name", |s, fd| with(s, fd, 0, |s, header| name(header, s.end(), 32))),
        ("flags in the message", |s, fd| with(s, fd, 0, |_, header| header.msg_flags = -1)),
        ("MSG_DONTWAIT", |s, fd| with(s, fd, libc::MSG_DONTWAIT, |_, _| {})),
        ("a length of control messages without any", |s, fd| {
            with(s, fd, 0, |_, header| header.msg_controllen = 64)
        }),
        ("inaccessible control messages", |s, fd| {
            with(s, fd, 0, |s, header| {
                (header.msg_control, header.msg_controllen) = (s.end() as *mut _, 64);
            })
        }),
        ("the flag of 32-bit programs", |s, fd| with(s, fd, c_int::MIN, |_, _| {})),
    ]);
}

#[test]
fn sendmmsg_takes_counts_and_lists_as_the_kernel_does() {
    fn with(scratch: &mut Scratch, fd: c_int, count: u32) -> Call {
        let buffers = [(scratch.put(*b"abcd"), 4), (scratch.put(*b"efghijkl"), 8)];
        let at = list(scratch, &buffers);
        let list = scratch.put([entry(at, 1), entry(at + 16, 1)]);
        sendmmsg(fd, list, count)
    }
    fn sendmmsg(fd: c_int, list: usize, count: u32) -> Call {
        (libc::SYS_sendmmsg, [fd as usize, list, count as usize, 0, 0, 0])
    }
    compare(&[
        ("none", |s, fd| with(s, fd, 0)),
        ("one", |s, fd| with(s, fd, 1)),
        ("two", |s, fd| with(s, fd, 2)),
        ("no list", |_, fd| sendmmsg(fd, 0, 1)),
        ("no list of none", |_, fd| sendmmsg(fd, 0, 0)),
        ("an inaccessible list", |s, fd| sendmmsg(fd, s.end(), 1)),
        ("a second entry that is inaccessible", |s, fd| {
            let buffer = [(s.put(*b"abcd"), 4)];
            let first = entry(list(s, &buffer), 1);
            sendmmsg(fd, s.put_cut(first, size_of_val(&first)), 2)
        }),
        ("a second message without its buffers", |s, fd| {
            let buffer = [(s.put(*b"abcd"), 4)];
            let good = entry(list(s, &buffer), 1);
            sendmmsg(fd, s.put([good, entry(s.end(), 1)]), 2)
        }),
    ]);
}

#[test]
fn sendfile_takes_descriptors_and_offsets_as_the_kernel_does() {
    fn sendfile(fd: c_int, from: c_int, offset: usize, count: usize) -> Call {
        (libc::SYS_sendfile, [fd as usize, from as usize, offset, count, 0, 0])
    }
    fn file() -> c_int {
        // SAFETY: the string and the buffer are constants.
        unsafe {
            let fd = libc::memfd_create(c"sent".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::pwrite(fd, b"a short file".as_ptr().cast(), 12, 0), 12);
            fd
        }
    }
    compare(&[
        ("all of a file", |_, fd| sendfile(fd, file(), 0, 100)),
        ("nothing", |_, fd| sendfile(fd, file(), 0, 0)),
        ("from an offset", |s, fd| sendfile(fd, file(), s.put(8i64), 100)),
        ("from beyond the end", |s, fd| sendfile(fd, file(), s.put(80i64), 100)),
        ("from an offset of -1", |s, fd| sendfile(fd, file(), s.put(-1i64), 100)),
        ("from an inaccessible offset", |s, fd| sendfile(fd, file(), s.end(), 100)),
        ("from no descriptor", |_, fd| sendfile(fd, -1, 0, 100)),
        ("from a descriptor out of range", |_, fd| sendfile(fd, c_int::MAX, 0, 100)),
        ("from itself", |_, fd| sendfile(fd, fd, 0, 100)),
    ]);
}

#[test]
fn shutdown_takes_its_argument_as_the_kernel_does() {
    fn shutdown<const HOW: c_int>(_: &mut Scratch, fd: c_int) -> Call {
        (libc::SYS_shutdown, [fd as usize, HOW as usize, 0, 0, 0, 0])
    }
    compare_fresh(&[
        ("SHUT_WR", shutdown::<{ libc::SHUT_WR }>),
        ("SHUT_RD", shutdown::<{ libc::SHUT_RD }>),
        ("SHUT_RDWR", shutdown::<{ libc::SHUT_RDWR }>),
        ("3", shutdown::<3>),
        ("-1", shutdown::<-1>),
        ("the greatest number", shutdown::<{ c_int::MAX }>),
    ]);
}
