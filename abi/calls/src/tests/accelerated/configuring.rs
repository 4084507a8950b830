//! Tests of calls that change descriptors or socket options.

use super::{OUT_OF_RANGE, compare, compare_fresh};
use crate::tests::kernel::{self, Answer, Call, SYS_dup2, Scratch};
use crate::tests::{Pair, ours};
use libc::{c_int, timeval};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn ioctl(fd: c_int, request: u64, argument: usize) -> Call {
    (libc::SYS_ioctl, [fd as usize, request as usize, argument, 0, 0, 0])
}

#[test]
fn ioctl_takes_requests_and_addresses_as_the_kernel_does() {
    compare(&[
        ("FIONREAD", |s, fd| ioctl(fd, libc::FIONREAD, s.put(-1i32))),
        ("FIONREAD to null", |_, fd| ioctl(fd, libc::FIONREAD, 0)),
        ("FIONREAD to inaccessible memory", |s, fd| ioctl(fd, libc::FIONREAD, s.end())),
        ("FIONREAD to two bytes", |s, fd| ioctl(fd, libc::FIONREAD, s.edge(2))),
        ("FIONREAD out of range", |_, fd| ioctl(fd, libc::FIONREAD, OUT_OF_RANGE)),
        ("TIOCOUTQ", |s, fd| ioctl(fd, libc::TIOCOUTQ, s.put(-1i32))),
        ("FIONBIO, off", |s, fd| ioctl(fd, libc::FIONBIO, s.put(0i32))),
        ("FIONBIO from null", |_, fd| ioctl(fd, libc::FIONBIO, 0)),
        ("FIONBIO from inaccessible memory", |s, fd| ioctl(fd, libc::FIONBIO, s.end())),
        ("FIOCLEX", |_, fd| ioctl(fd, libc::FIOCLEX, 0)),
        ("an unknown request", |s, fd| ioctl(fd, 0xdead_beef, s.room(16))),
    ]);
}

fn fcntl(fd: c_int, command: c_int, argument: usize) -> Call {
    (libc::SYS_fcntl, [fd as usize, command as usize, argument, 0, 0, 0])
}

#[test]
fn fcntl_takes_commands_as_the_kernel_does() {
    use libc::{F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, F_GETLK, F_GETOWN, F_GETPIPE_SZ};
    use libc::{F_SETFD, F_SETFL, FD_CLOEXEC};
    compare(&[
        ("F_GETFD", |_, fd| fcntl(fd, F_GETFD, 0)),
        ("F_SETFD", |_, fd| fcntl(fd, F_SETFD, FD_CLOEXEC as usize)),
        ("F_GETFL", |_, fd| fcntl(fd, F_GETFL, 0)),
        ("F_SETFL of nothing", |_, fd| fcntl(fd, F_SETFL, 0)),
        ("F_DUPFD from -1", |_, fd| fcntl(fd, F_DUPFD, usize::MAX)),
        ("F_DUPFD from the greatest number", |_, fd| fcntl(fd, F_DUPFD, c_int::MAX as usize)),
        ("F_DUPFD_CLOEXEC from -1", |_, fd| fcntl(fd, F_DUPFD_CLOEXEC, usize::MAX)),
        ("F_GETOWN", |_, fd| fcntl(fd, F_GETOWN, 0)),
        ("F_GETLK from null", |_, fd| fcntl(fd, F_GETLK, 0)),
        ("F_GETPIPE_SZ", |_, fd| fcntl(fd, F_GETPIPE_SZ, 0)),
        ("an unknown command", |_, fd| fcntl(fd, 9_999, 0)),
        ("a command of -1", |_, fd| fcntl(fd, -1, 0)),
    ]);
}

#[test]
fn dup_takes_numbers_as_the_kernel_does() {
    compare(&[
        ("dup2 to -1", |_, fd| (SYS_dup2, [fd as usize, usize::MAX, 0, 0, 0, 0])),
        ("dup2 to the greatest number", |_, fd| {
            (SYS_dup2, [fd as usize, c_int::MAX as usize, 0, 0, 0, 0])
        }),
        ("dup3 to itself", |_, fd| (libc::SYS_dup3, [fd as usize, fd as usize, 0, 0, 0, 0])),
        ("dup3 with unknown flags", |_, fd| (libc::SYS_dup3, [fd as usize, 590, 1, 0, 0, 0])),
        ("dup3 to -1", |_, fd| (libc::SYS_dup3, [fd as usize, usize::MAX, 0, 0, 0, 0])),
    ]);
}

fn get(fd: c_int, level: c_int, name: c_int, value: usize, len: usize) -> Call {
    let (level, name) = (level as usize, name as usize);
    (libc::SYS_getsockopt, [fd as usize, level, name, value, len, 0])
}

fn set(fd: c_int, level: c_int, name: c_int, value: usize, len: u32) -> Call {
    let (level, name) = (level as usize, name as usize);
    (libc::SYS_setsockopt, [fd as usize, level, name, value, len as usize, 0])
}

#[test]
fn getsockopt_takes_lengths_and_addresses_as_the_kernel_does() {
    fn error(fd: c_int, value: usize, len: usize) -> Call {
        get(fd, libc::SOL_SOCKET, libc::SO_ERROR, value, len)
    }
    compare(&[
        ("an error", |s, fd| error(fd, s.put(-1i32), s.put(4i32))),
        ("more room than it takes", |s, fd| error(fd, s.put(-1i64), s.put(8i32))),
        ("room for two bytes", |s, fd| error(fd, s.put(-1i32), s.put(2i32))),
        ("no room", |s, fd| error(fd, s.put(-1i32), s.put(0i32))),
        ("a length of -1", |s, fd| error(fd, s.put(-1i32), s.put(-1i32))),
        ("no length", |s, fd| error(fd, s.put(-1i32), 0)),
        ("an inaccessible length", |s, fd| error(fd, s.put(-1i32), s.end())),
        ("no value", |s, fd| error(fd, 0, s.put(4i32))),
        ("an inaccessible value", |s, fd| error(fd, s.end(), s.put(4i32))),
        ("an inaccessible value without room", |s, fd| error(fd, s.end(), s.put(0i32))),
        ("SO_TYPE", |s, fd| get(fd, libc::SOL_SOCKET, libc::SO_TYPE, s.put(-1i32), s.put(4i32))),
        ("SO_RCVTIMEO", |s, fd| {
            get(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, s.put([-1i64; 2]), s.put(16i32))
        }),
        ("TCP_NODELAY", |s, fd| {
            get(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, s.put(-1i32), s.put(4i32))
        }),
        ("an unknown option", |s, fd| get(fd, libc::SOL_SOCKET, 9_999, s.put(-1i32), s.put(4i32))),
        ("an unknown level", |s, fd| get(fd, 9_999, 1, s.put(-1i32), s.put(4i32))),
    ]);
}

#[test]
fn setsockopt_takes_lengths_and_addresses_as_the_kernel_does() {
    use libc::*;
    compare_fresh(&[
        ("SO_KEEPALIVE", |s, fd| set(fd, SOL_SOCKET, SO_KEEPALIVE, s.put(1i32), 4)),
        ("SO_KEEPALIVE of two bytes", |s, fd| set(fd, SOL_SOCKET, SO_KEEPALIVE, s.put(1i32), 2)),
        ("SO_KEEPALIVE of length -1", |s, fd| {
            set(fd, SOL_SOCKET, SO_KEEPALIVE, s.put(1i32), u32::MAX)
        }),
        ("SO_KEEPALIVE from null", |_, fd| set(fd, SOL_SOCKET, SO_KEEPALIVE, 0, 4)),
        ("SO_KEEPALIVE from inaccessible memory", |s, fd| {
            set(fd, SOL_SOCKET, SO_KEEPALIVE, s.end(), 4)
        }),
        ("TCP_NODELAY", |s, fd| set(fd, IPPROTO_TCP, TCP_NODELAY, s.put(1i32), 4)),
        ("SO_RCVLOWAT from null", |_, fd| set(fd, SOL_SOCKET, SO_RCVLOWAT, 0, 4)),
        ("SO_RCVLOWAT of 1", |s, fd| set(fd, SOL_SOCKET, SO_RCVLOWAT, s.put(1i32), 4)),
        ("SO_RCVLOWAT of -1", |s, fd| set(fd, SOL_SOCKET, SO_RCVLOWAT, s.put(-1i32), 4)),
        ("SO_RCVTIMEO of eight bytes", |s, fd| {
            set(fd, SOL_SOCKET, SO_RCVTIMEO, s.put([1i64; 2]), 8)
        }),
        ("SO_RCVTIMEO of a second's microseconds", |s, fd| {
            let value = s.put(timeval { tv_sec: 0, tv_usec: 1_000_000 });
            set(fd, SOL_SOCKET, SO_RCVTIMEO, value, 16)
        }),
        ("SO_RCVTIMEO of -1 microsecond", |s, fd| {
            let value = s.put(timeval { tv_sec: 0, tv_usec: -1 });
            set(fd, SOL_SOCKET, SO_RCVTIMEO, value, 16)
        }),
        ("SO_SNDTIMEO from inaccessible memory", |s, fd| {
            set(fd, SOL_SOCKET, SO_SNDTIMEO, s.end(), 16)
        }),
        ("an unknown option", |s, fd| set(fd, SOL_SOCKET, 9_999, s.put(1i32), 4)),
        ("an unknown level", |s, fd| set(fd, 9_999, 1, s.put(1i32), 4)),
    ]);
}

/// Sets a time-out of -1 second.
fn set_negative_time_out(make: fn(Call) -> Answer, fd: c_int, name: c_int) {
    let mut scratch = Scratch::new();
    let value = scratch.put(timeval { tv_sec: -1, tv_usec: 0 });
    assert_eq!(make(set(fd, libc::SOL_SOCKET, name, value, 16)), Ok(0));
}

/// Repeats the call `number` with 8 KB on the socket `fd` until the call fails. Returns the error.
fn error_of(make: fn(Call) -> Answer, fd: c_int, number: libc::c_long) -> Option<Answer> {
    let (found, answer) = mpsc::channel();
    thread::spawn(move || {
        let mut scratch = Scratch::new();
        let call = (number, [fd as usize, scratch.room(8192), 8192, 0, 0, 0]);
        let error = core::iter::repeat_with(|| make(call)).find(Result::is_err);
        let _ = found.send(error);
    });
    answer.recv_timeout(Duration::from_secs(10)).expect("the call waits")
}

fn assert_eagain_after_negative_time_out(name: c_int, number: libc::c_long) {
    let pairs = [Pair::of_kernel(), Pair::accelerated()];
    for (pair, make) in pairs.iter().zip([kernel::kernel as fn(Call) -> Answer, ours]) {
        set_negative_time_out(make, pair.fds[1], name);
        assert_eq!(error_of(make, pair.fds[1], number), Some(Err(libc::EAGAIN)));
    }
}

#[test]
fn read_after_a_negative_receive_time_out_is_eagain_at_once() {
    assert_eagain_after_negative_time_out(libc::SO_RCVTIMEO, libc::SYS_read);
}

#[test]
fn write_after_a_negative_send_time_out_is_eagain_at_once() {
    assert_eagain_after_negative_time_out(libc::SO_SNDTIMEO, libc::SYS_write);
}

#[test]
#[ignore = "the kernel shows a negative SO_RCVTIMEO that was set before connect as 0, so the call waits for ever"]
fn read_after_a_negative_receive_time_out_set_before_connect_is_eagain_at_once() {
    let negative = |fd| set_negative_time_out(ours, fd, libc::SO_RCVTIMEO);
    let pair = Pair::accelerated_from(negative);
    assert_eq!(error_of(ours, pair.fds[0], libc::SYS_read), Some(Err(libc::EAGAIN)));
}

#[test]
fn data_on_the_vi_counts_for_tcp_info() {
    /// Returns the milliseconds since the last send and the last receive, from TCP_INFO.
    fn silence(make: fn(Call) -> Answer, fd: c_int) -> [u32; 2] {
        // SAFETY: all zeros are a valid `tcp_info`.
        let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
        let mut len = size_of_val(&info) as libc::socklen_t;
        let (info_at, len_at) = ((&raw mut info) as usize, (&raw mut len) as usize);
        let option = [libc::IPPROTO_TCP as usize, libc::TCP_INFO as usize];
        let call = [fd as usize, option[0], option[1], info_at, len_at, 0];
        assert_eq!(make((libc::SYS_getsockopt, call)), Ok(0));
        [info.tcpi_last_data_sent, info.tcpi_last_data_recv]
    }
    const PAUSE: Duration = Duration::from_millis(50);
    let pair = Pair::accelerated();
    // The kernel measures time in ticks. So this pause is longer than the time that the test checks.
    thread::sleep(2 * PAUSE);
    let begin = Instant::now();
    for end in 0..2 {
        pair.send(end, b"data");
        pair.arrive();
        assert_eq!(pair.receive(1 - end), b"data");
    }
    let here = silence(ours, pair.fds[0]);
    let elapsed = begin.elapsed().as_millis();
    let kernels = silence(kernel::kernel, pair.fds[0]);
    assert!(kernels.iter().all(|&ms| u128::from(ms) >= elapsed + PAUSE.as_millis()), "{kernels:?}");
    assert!(here.iter().all(|&ms| u128::from(ms) <= elapsed), "{here:?} of {elapsed} ms");
}
