//! Tests on connections without unread bytes, and on connections with an end that has been shut down.

use super::{OUT_OF_RANGE, TESTED, compare_prepared, list, message};
use crate::tests::Pair;
use crate::tests::kernel::{Call, Case, SYS_poll, Scratch};
use libc::{c_int, pollfd};

fn recv(fd: c_int, buffer: usize, len: usize, how: c_int) -> Call {
    (libc::SYS_recvfrom, [fd as usize, buffer, len, how as usize, 0, 0])
}

fn send(fd: c_int, buffer: usize, len: usize) -> Call {
    let how = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as usize;
    (libc::SYS_sendto, [fd as usize, buffer, len, how, 0, 0])
}

fn recvmsg(scratch: &mut Scratch, fd: c_int, how: c_int) -> Call {
    let buffer = [(scratch.room(16), 16)];
    let header = message(list(scratch, &buffer), 1);
    (libc::SYS_recvmsg, [fd as usize, scratch.put(header), how as usize, 0, 0, 0])
}

fn readv(scratch: &mut Scratch, fd: c_int, base: usize, len: usize) -> Call {
    (libc::SYS_readv, [fd as usize, list(scratch, &[(base, len)]), 1, 0, 0, 0])
}

fn poll(scratch: &mut Scratch, fd: c_int) -> Call {
    let entry = scratch.put_with_number(pollfd { fd, events: -1, revents: 77 }, 0);
    (SYS_poll, [entry, 1, 0, 0, 0, 0])
}

fn error(scratch: &mut Scratch, fd: c_int) -> Call {
    let (value, len) = (scratch.put(-1i32), scratch.put(4i32));
    let (level, name) = (libc::SOL_SOCKET as usize, libc::SO_ERROR as usize);
    (libc::SYS_getsockopt, [fd as usize, level, name, value, len, 0])
}

fn unread(scratch: &mut Scratch, fd: c_int) -> Call {
    (libc::SYS_ioctl, [fd as usize, libc::FIONREAD as usize, scratch.put(-1i32), 0, 0, 0])
}

/// Calls that do not wait in any state of the connection.
const CALLS: &[Case] = &[
    ("poll", poll),
    ("SO_ERROR", error),
    ("FIONREAD", unread),
    ("recv", |s, fd| recv(fd, s.room(16), 16, libc::MSG_DONTWAIT)),
    ("recv to null", |_, fd| recv(fd, 0, 16, libc::MSG_DONTWAIT)),
    ("recv to inaccessible memory", |s, fd| recv(fd, s.end(), 16, libc::MSG_DONTWAIT)),
    ("recv out of range", |_, fd| recv(fd, OUT_OF_RANGE, 16, libc::MSG_DONTWAIT)),
    ("recv of nothing", |s, fd| recv(fd, s.room(16), 0, libc::MSG_DONTWAIT)),
    ("recv, MSG_PEEK", |s, fd| recv(fd, s.room(16), 16, libc::MSG_PEEK | libc::MSG_DONTWAIT)),
    ("recv, MSG_WAITALL", |s, fd| recv(fd, s.room(16), 16, libc::MSG_WAITALL | libc::MSG_DONTWAIT)),
    ("recvmsg", |s, fd| recvmsg(s, fd, libc::MSG_DONTWAIT)),
    ("readv of nothing", |s, fd| readv(s, fd, 0, 0)),
    ("read of nothing", |_, fd| (libc::SYS_read, [fd as usize, 0, 0, 0, 0, 0])),
    ("send of nothing", |s, fd| send(fd, s.room(16), 0)),
    ("poll afterwards", poll),
];

#[test]
fn calls_on_a_connection_with_nothing_unread_are_the_kernels() {
    compare_prepared(CALLS, |_| {});
    compare_prepared(
        &[
            ("send", |s, fd| send(fd, s.put(*b"abcd"), 4)),
            ("send from null", |_, fd| send(fd, 0, 4)),
            ("send from inaccessible memory", |s, fd| send(fd, s.end(), 4)),
        ],
        |_| {},
    );
}

fn shut(pair: &Pair, end: usize, how: c_int) {
    let shut = (libc::SYS_shutdown, [pair.fds[end] as usize, how as usize, 0, 0, 0, 0]);
    assert_eq!(pair.make(shut), Ok(0));
}

#[test]
fn calls_on_a_connection_whose_peer_has_ended_its_half_are_the_kernels() {
    compare_prepared(CALLS, |pair| shut(pair, 1 - TESTED, libc::SHUT_WR));
    compare_prepared(
        &[
            ("read", |s, fd| (libc::SYS_read, [fd as usize, s.room(16), 16, 0, 0, 0])),
            ("read to null", |_, fd| (libc::SYS_read, [fd as usize, 0, 16, 0, 0, 0])),
            ("read to inaccessible memory", |s, fd| {
                (libc::SYS_read, [fd as usize, s.end(), 16, 0, 0, 0])
            }),
            ("readv", |s, fd| {
                let buffer = s.room(16);
                readv(s, fd, buffer, 16)
            }),
            ("send", |s, fd| send(fd, s.put(*b"abcd"), 4)),
        ],
        |pair| shut(pair, 1 - TESTED, libc::SHUT_WR),
    );
}

#[test]
fn calls_on_a_connection_whose_own_half_has_ended_are_the_kernels() {
    compare_prepared(CALLS, |pair| shut(pair, TESTED, libc::SHUT_WR));
    compare_prepared(
        &[
            ("send", |s, fd| send(fd, s.put(*b"abcd"), 4)),
            ("send from null", |_, fd| send(fd, 0, 4)),
            ("send from inaccessible memory", |s, fd| send(fd, s.end(), 4)),
            ("poll", poll),
        ],
        |pair| shut(pair, TESTED, libc::SHUT_WR),
    );
}

#[test]
fn calls_on_a_connection_that_no_longer_reads_are_the_kernels() {
    compare_prepared(CALLS, |pair| shut(pair, TESTED, libc::SHUT_RD));
}
