//! Tests that calls on descriptors without a connection of Sovia have the same results as the kernel's calls.

use super::kernel::{
    Call, Case, Differences, SYS_dup2, SYS_epoll_wait, SYS_poll, SYS_select, Scratch,
    closed_number, kernel,
};
use super::{Pair, libcs, ours, start};
use libc::{c_int, c_long, pollfd};

/// Passes the descriptor, an address of 4 KB, a length of 8, and zeros.
fn transfer<const NUMBER: c_long>(scratch: &mut Scratch, fd: c_int) -> Call {
    (NUMBER, [fd as usize, scratch.room(4096), 8, 0, 0, 0])
}

/// Passes the descriptor, an inaccessible address, a length of 8, and zeros.
fn bad_transfer<const NUMBER: c_long>(scratch: &mut Scratch, fd: c_int) -> Call {
    (NUMBER, [fd as usize, scratch.end(), 8, 0, 0, 0])
}

/// Passes the descriptor and zeros.
fn numbers<const NUMBER: c_long>(_: &mut Scratch, fd: c_int) -> Call {
    (NUMBER, [fd as usize, 0, 0, 0, 0, 0])
}

/// Passes the descriptor, a list of one buffer, and the list's length.
fn list<const NUMBER: c_long>(scratch: &mut Scratch, fd: c_int) -> Call {
    let entry = [scratch.room(16), 8];
    (NUMBER, [fd as usize, scratch.put(entry), 1, 0, 0, 0])
}

/// Passes the descriptor and a message with one buffer.
fn message<const NUMBER: c_long>(scratch: &mut Scratch, fd: c_int) -> Call {
    let entry = [scratch.room(16), 8];
    let header = [0, 0, scratch.put(entry), 1, 0, 0, 0];
    (NUMBER, [fd as usize, scratch.put(header), 0, 0, 0, 0])
}

/// Passes the descriptor, a list of one message, and the list's length.
fn messages<const NUMBER: c_long>(scratch: &mut Scratch, fd: c_int) -> Call {
    let entry = [scratch.room(16), 8];
    let header = [0, 0, scratch.put(entry), 1, 0, 0, 0, 0];
    (NUMBER, [fd as usize, scratch.put(header), 1, libc::MSG_DONTWAIT as usize, 0, 0])
}

/// Passes the descriptor, a socket option, its value and its length. `getsockopt` gets the length by address.
fn option<const NUMBER: c_long>(scratch: &mut Scratch, fd: c_int) -> Call {
    let (level, name) = (libc::SOL_SOCKET as usize, libc::SO_KEEPALIVE as usize);
    let len = if NUMBER == libc::SYS_getsockopt { scratch.put(4i32) } else { 4 };
    (NUMBER, [fd as usize, level, name, scratch.put(1i32), len, 0])
}

/// Returns a call of `poll` for all events of the descriptor.
fn poll(scratch: &mut Scratch, fd: c_int) -> Call {
    let entry = scratch.put_with_number(pollfd { fd, events: -1, revents: 77 }, 0);
    (SYS_poll, [entry, 1, 0, 0, 0, 0])
}

/// Calls with arguments that are valid for at least one kind of descriptor.
const CALLS: &[Case] = &[
    ("read", transfer::<{ libc::SYS_read }>),
    ("read to inaccessible memory", bad_transfer::<{ libc::SYS_read }>),
    ("readv", list::<{ libc::SYS_readv }>),
    ("readv of an inaccessible list", bad_transfer::<{ libc::SYS_readv }>),
    ("recv", transfer::<{ libc::SYS_recvfrom }>),
    ("recv to inaccessible memory", bad_transfer::<{ libc::SYS_recvfrom }>),
    ("recvmsg", message::<{ libc::SYS_recvmsg }>),
    ("recvmsg of an inaccessible message", bad_transfer::<{ libc::SYS_recvmsg }>),
    ("recvmmsg", messages::<{ libc::SYS_recvmmsg }>),
    ("write", transfer::<{ libc::SYS_write }>),
    ("write from inaccessible memory", bad_transfer::<{ libc::SYS_write }>),
    ("writev", list::<{ libc::SYS_writev }>),
    ("writev of an inaccessible list", bad_transfer::<{ libc::SYS_writev }>),
    ("send", transfer::<{ libc::SYS_sendto }>),
    ("send from inaccessible memory", bad_transfer::<{ libc::SYS_sendto }>),
    ("sendmsg", message::<{ libc::SYS_sendmsg }>),
    ("sendmsg of an inaccessible message", bad_transfer::<{ libc::SYS_sendmsg }>),
    ("sendmmsg", messages::<{ libc::SYS_sendmmsg }>),
    ("sendfile from descriptor 0 of nothing", numbers::<{ libc::SYS_sendfile }>),
    ("connect without an address", numbers::<{ libc::SYS_connect }>),
    ("connect to an inaccessible address", bad_transfer::<{ libc::SYS_connect }>),
    ("shutdown of nothing", |_, fd| (libc::SYS_shutdown, [fd as usize, 99, 0, 0, 0, 0])),
    ("setsockopt", option::<{ libc::SYS_setsockopt }>),
    ("getsockopt", option::<{ libc::SYS_getsockopt }>),
    ("F_GETFD", |_, fd| (libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0])),
    ("F_GETFL", |_, fd| (libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0])),
    ("F_DUPFD from -1", |_, fd| (libc::SYS_fcntl, [fd as usize, 0, usize::MAX, 0, 0, 0])),
    ("FIONREAD", |s, fd| {
        (libc::SYS_ioctl, [fd as usize, libc::FIONREAD as usize, s.put(-1i32), 0, 0, 0])
    }),
    ("an unknown ioctl", |_, fd| (libc::SYS_ioctl, [fd as usize, 0xdead_beef, 0, 0, 0, 0])),
    ("dup2 to -1", |_, fd| (SYS_dup2, [fd as usize, usize::MAX, 0, 0, 0, 0])),
    ("dup3 with unknown flags", |_, fd| (libc::SYS_dup3, [fd as usize, 590, 1, 0, 0, 0])),
    ("poll", poll),
    ("EPOLL_CTL_DEL", |_, fd| (libc::SYS_epoll_ctl, [fd as usize, 2, fd as usize, 0, 0, 0])),
    ("epoll_wait", |s, fd| (SYS_epoll_wait, [fd as usize, s.room(12), 1, 0, 0, 0])),
    ("epoll_wait without room", numbers::<{ SYS_epoll_wait }>),
];

/// Calls that would wait on a listening socket, or would close a descriptor that the other calls need.
const OF_CLOSED: &[Case] = &[
    ("close", numbers::<{ libc::SYS_close }>),
    ("dup", numbers::<{ libc::SYS_dup }>),
    ("accept", numbers::<{ libc::SYS_accept }>),
    ("accept to inaccessible memory", bad_transfer::<{ libc::SYS_accept }>),
    ("accept4 with unknown flags", |_, fd| (libc::SYS_accept4, [fd as usize, 0, 0, 1, 0, 0])),
    ("dup2 to itself", |_, fd| (SYS_dup2, [fd as usize, fd as usize, 0, 0, 0, 0])),
    ("dup3 to itself", |_, fd| (libc::SYS_dup3, [fd as usize, fd as usize, 0, 0, 0, 0])),
    ("splice", |_, fd| (libc::SYS_splice, [fd as usize, 0, fd as usize, 0, 8, 0])),
];

/// Makes each call by the kernel and through Sovia, on two descriptors in the same state. Compares the results.
fn compare(calls: &[Case], mut fds: impl FnMut() -> [c_int; 2]) {
    start();
    let mut scratch = Scratch::new();
    let mut differences = Differences::default();
    for &case in calls {
        differences.compare(&mut scratch, case, fds(), kernel, ours);
    }
    differences.assert_none();
}

/// Checks that `made`, the result of the call that made `fds`, is 0. Makes the two descriptors nonblocking.
fn ends(made: c_int, fds: [c_int; 2]) -> [c_int; 2] {
    assert_eq!(made, 0);
    for fd in fds {
        // SAFETY: the call takes only numbers.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) }, 0);
    }
    fds
}

fn close(fds: [c_int; 2]) {
    for fd in fds {
        // SAFETY: the test owns the descriptor.
        unsafe { libc::close(fd) };
    }
}

#[test]
fn closed_descriptors_have_the_kernels_errors() {
    let number = closed_number();
    compare(CALLS, || [number; 2]);
    compare(OF_CLOSED, || [number; 2]);
}

#[test]
fn descriptor_minus_one_has_the_kernels_errors() {
    compare(CALLS, || [-1; 2]);
    compare(OF_CLOSED, || [-1; 2]);
}

#[test]
fn descriptors_out_of_range_have_the_kernels_errors() {
    for number in [c_int::MAX, c_int::MIN, 1 << 20, (1 << 20) - 1, 1 << 24] {
        compare(CALLS, || [number; 2]);
        compare(OF_CLOSED, || [number; 2]);
    }
}

#[test]
fn pipes_have_the_kernels_answers() {
    let mut made = Vec::new();
    compare(CALLS, || {
        let pipe = || {
            let mut fds = [0; 2];
            // SAFETY: `fds` has room for both numbers.
            let result = unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) };
            ends(result, fds)
        };
        made.push([pipe(), pipe()]);
        made[made.len() - 1].map(|pipe| pipe[0])
    });
    made.into_iter().flatten().for_each(close);
}

#[test]
fn unix_sockets_have_the_kernels_answers() {
    let mut made = Vec::new();
    compare(CALLS, || {
        let pair = || {
            let mut fds = [0; 2];
            let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
            // SAFETY: `fds` has room for both numbers.
            let result = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) };
            ends(result, fds)
        };
        made.push([pair(), pair()]);
        made[made.len() - 1].map(|pair| pair[0])
    });
    made.into_iter().flatten().for_each(close);
}

#[test]
fn unconnected_sockets_have_the_kernels_answers() {
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
        let mut made = Vec::new();
        compare(CALLS, || {
            // SAFETY: the call takes only numbers.
            let socket = || unsafe {
                libc::socket(libc::AF_INET, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0)
            };
            made.push([socket(), socket()]);
            made[made.len() - 1]
        });
        made.into_iter().for_each(close);
    }
}

#[test]
fn tcp_connections_that_are_not_sovias_have_the_kernels_answers() {
    let mut made = Vec::new();
    compare(CALLS, || {
        let pair = || {
            let pair = Pair::of_kernel();
            pair.send(0, b"0123456789");
            pair.arrive();
            pair
        };
        made.push([pair(), pair()]);
        let last = &made[made.len() - 1];
        [last[0].fds[1], last[1].fds[1]]
    });
}

#[test]
fn time_outs_and_masks_are_passed_on_where_no_descriptor_is_sovias() {
    start();
    let mut scratch = Scratch::new();
    let mut differences = Differences::default();
    let calls: &[Case] = &[
        ("ppoll for a second's nanoseconds", |s, _| {
            (libc::SYS_ppoll, [0, 0, s.put([0i64, 1_000_000_000]), 0, 0, 0])
        }),
        ("ppoll for -1 second", |s, _| (libc::SYS_ppoll, [0, 0, s.put([-1i64, 0]), 0, 0, 0])),
        ("ppoll for no time", |s, _| (libc::SYS_ppoll, [0, 0, s.put([0i64, 0]), 0, 0, 0])),
        ("ppoll with an inaccessible mask", |s, _| {
            (libc::SYS_ppoll, [0, 0, s.put([0i64, 0]), s.end(), 0, 0])
        }),
        ("select for a microsecond", |s, _| (SYS_select, [0, 0, 0, 0, s.put([0i64, 1]), 0])),
        ("select for -1 microsecond", |s, _| (SYS_select, [0, 0, 0, 0, s.put([0i64, -1]), 0])),
        ("select of -1 descriptors", |s, _| {
            (SYS_select, [usize::MAX, 0, 0, 0, s.put([0i64, 0]), 0])
        }),
        ("pselect for a nanosecond", |s, _| {
            (libc::SYS_pselect6, [0, 0, 0, 0, s.put([0i64, 1]), 0])
        }),
        ("pselect for a second's nanoseconds", |s, _| {
            (libc::SYS_pselect6, [0, 0, 0, 0, s.put([0i64, 1_000_000_000]), 0])
        }),
        ("epoll_pwait of no instance", |s, _| {
            (libc::SYS_epoll_pwait, [usize::MAX, s.room(12), 1, 0, 0, 0])
        }),
    ];
    for &case in calls {
        differences.compare(&mut scratch, case, [-1; 2], libcs, ours);
    }
    differences.assert_none();
}
