//! Starts the engine in the test process, connects sockets with both ends in this process, and makes calls by
//! number.
//!
//! One engine serves both ends of a connection. The ends find each other like ends in two processes. If one end
//! were in a child process, each step of a test would need a message to the child.

#[path = "../../../testing/kernel.rs"]
pub(crate) mod kernel;

mod accelerated;
mod foreign;

use crate::{descriptors, poll, receive, send, sockets};
use kernel::{Answer, Call, of_c};
use libc::{c_int, c_long, sockaddr, socklen_t};
use sovia_signal::chain;
use sovia_sockets::native;
use sovia_sys::call::{getsockopt, tcp_bytes_sent};
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for a connection to get a VI, and for bytes to arrive.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Starts the engine of this process, unless an earlier test has started the engine.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        kernel::watch();
        chain::start(libc::sigaction);
        assert!(chain::guards());
        sovia_sockets::start();
    });
}

/// Expands to a closure that makes the real call.
macro_rules! real {
    ($name:ident $(, $arg:ident)*) => {
        |$($arg),*| libc::$name($($arg),*)
    };
}

/// Makes a system call, given by number, through this crate.
pub(crate) fn ours(call: Call) -> Answer {
    // SAFETY: the tests pass addresses within a `Scratch`, or addresses that the call must refuse.
    of_c(|| unsafe { by_number(call) })
}

unsafe fn by_number((number, [a, b, c, d, e, f]): Call) -> isize {
    let fd = a as c_int;
    let recv = |fd, buf, len, how| {
        // SAFETY: the caller passes addresses within a `Scratch`, or addresses that the call must refuse.
        unsafe { receive::recv(real!(recv, fd, buf, len, how), fd, buf, len, how) }
    };
    let recvmsg = |fd, msg, how| {
        // SAFETY: the caller passes addresses within a `Scratch`, or addresses that the call must refuse.
        unsafe { receive::recvmsg(real!(recvmsg, fd, msg, how), fd, msg, how) }
    };
    let send = |fd, buf, len, how| {
        // SAFETY: the caller passes addresses within a `Scratch`, or addresses that the call must refuse.
        unsafe { send::send(real!(send, fd, buf, len, how), fd, buf, len, how) }
    };
    let sendmsg = |fd, msg, how| {
        // SAFETY: the caller passes addresses within a `Scratch`, or addresses that the call must refuse.
        unsafe { send::sendmsg(real!(sendmsg, fd, msg, how), fd, msg, how) }
    };
    // SAFETY: the caller passes addresses within a `Scratch`, or addresses that the call must refuse.
    unsafe {
        match number {
            libc::SYS_read => receive::read(real!(read, a, b, c), fd, b as *mut _, c),
            libc::SYS_readv => receive::readv(real!(readv, a, b, c), fd, b as *const _, c as c_int),
            libc::SYS_recvfrom if e == 0 && f == 0 => recv(fd, b as *mut _, c, d as c_int),
            libc::SYS_recvfrom => receive::recvfrom(
                real!(recvfrom, a, b, c, d, e, f),
                recv,
                fd,
                b as *mut _,
                c,
                d as c_int,
                e as *mut _,
                f as *mut _,
            ),
            libc::SYS_recvmsg => recvmsg(fd, b as *mut _, c as c_int),
            libc::SYS_recvmmsg => receive::recvmmsg(
                real!(recvmmsg, a, b, c, d, e),
                recvmsg,
                fd,
                b as *mut _,
                c as u32,
                d as c_int,
                e as *mut _,
            ) as isize,
            libc::SYS_write => send::write(real!(write, a, b, c), fd, b as *const _, c),
            libc::SYS_writev => send::writev(real!(writev, a, b, c), fd, b as *const _, c as c_int),
            libc::SYS_sendto if e == 0 && f == 0 => send(fd, b as *const _, c, d as c_int),
            libc::SYS_sendto => send::sendto(
                real!(sendto, a, b, c, d, e, f),
                send,
                fd,
                b as *const _,
                c,
                d as c_int,
                e as *const _,
                f as u32,
            ),
            libc::SYS_sendmsg => sendmsg(fd, b as *const _, c as c_int),
            libc::SYS_sendmmsg => send::sendmmsg(
                real!(sendmmsg, a, b, c, d),
                sendmsg,
                fd,
                b as *mut _,
                c as u32,
                d as c_int,
            ) as isize,
            libc::SYS_sendfile => {
                send::sendfile(real!(sendfile, a, b, c, d), fd, b as c_int, c as *mut _, d)
            }
            libc::SYS_splice => send::splice(
                real!(splice, a, b, c, d, e, f),
                fd,
                b as *mut _,
                c as c_int,
                d as *mut _,
                e,
                f as u32,
            ),
            kernel::SYS_poll => {
                poll::poll(real!(poll, a, b, c), a as *mut _, b as u64, c as c_int) as isize
            }
            libc::SYS_epoll_ctl => poll::epoll_ctl(
                real!(epoll_ctl, a, b, c, d),
                fd,
                b as c_int,
                c as c_int,
                d as *mut _,
            ) as isize,
            kernel::SYS_epoll_wait => poll::epoll_wait(
                real!(epoll_wait, a, b, c, d),
                fd,
                b as *mut _,
                c as c_int,
                d as c_int,
            ) as isize,
            libc::SYS_ppoll | kernel::SYS_select | libc::SYS_pselect6 | libc::SYS_epoll_pwait => {
                waiting((number, [a, b, c, d, e, f]))
            }
            _ => configuring((number, [a, b, c, d, e, f])),
        }
    }
}

/// Makes a call through libc, if libc's function differs from the system call. libc's functions leave the program's
/// time-out unchanged, and take longer signal masks.
pub(crate) fn libcs((number, [a, b, c, d, e, f]): Call) -> Answer {
    // SAFETY: the tests pass addresses within a `Scratch`, or addresses that the call must refuse.
    let result = || unsafe {
        match number {
            libc::SYS_ppoll => libc::ppoll(a as *mut _, b as u64, c as *const _, d as *const _),
            kernel::SYS_select => {
                libc::select(a as c_int, b as *mut _, c as *mut _, d as *mut _, e as *mut _)
            }
            libc::SYS_pselect6 => {
                let sets = (b as *mut _, c as *mut _, d as *mut _);
                libc::pselect(a as c_int, sets.0, sets.1, sets.2, e as *const _, f as *const _)
            }
            libc::SYS_epoll_pwait => {
                let wait = (b as *mut _, c as c_int, d as c_int);
                libc::epoll_pwait(a as c_int, wait.0, wait.1, wait.2, e as *const _)
            }
            _ => panic!("libc passes system call {number} on as it is"),
        }
    };
    of_c(|| result() as isize)
}

unsafe fn waiting((number, [a, b, c, d, e, f]): Call) -> isize {
    // SAFETY: the caller passes addresses within a `Scratch`, or addresses that the call must refuse.
    let result = unsafe {
        match number {
            libc::SYS_ppoll => poll::ppoll(
                real!(ppoll, a, b, c, d),
                a as *mut _,
                b as u64,
                c as *const _,
                d as *const _,
            ),
            kernel::SYS_select => poll::select(
                real!(select, a, b, c, d, e),
                a as c_int,
                b as *mut _,
                c as *mut _,
                d as *mut _,
                e as *mut _,
            ),
            libc::SYS_pselect6 => poll::pselect(
                real!(pselect, a, b, c, d, e, f),
                a as c_int,
                b as *mut _,
                c as *mut _,
                d as *mut _,
                e as *const _,
                f as *const _,
            ),
            _ => poll::epoll_pwait(
                real!(epoll_pwait, a, b, c, d, e),
                a as c_int,
                b as *mut _,
                c as c_int,
                d as c_int,
                e as *const _,
            ),
        }
    };
    result as isize
}

unsafe fn configuring((number, [a, b, c, d, e, _]): Call) -> isize {
    let fd = a as c_int;
    // SAFETY: the caller passes addresses within a `Scratch`, or addresses that the call must refuse.
    let result = unsafe {
        match number {
            libc::SYS_connect => {
                sockets::connect(real!(connect, a, b, c), fd, b as *const _, c as u32)
            }
            libc::SYS_accept => {
                sockets::accept(real!(accept, a, b, c), fd, b as *mut _, c as *mut _)
            }
            libc::SYS_accept4 => sockets::accept4(
                real!(accept4, a, b, c, d),
                fd,
                b as *mut _,
                c as *mut _,
                d as c_int,
            ),
            libc::SYS_shutdown => sockets::shutdown(real!(shutdown, a, b), fd, b as c_int),
            libc::SYS_setsockopt => sockets::setsockopt(
                real!(setsockopt, a, b, c, d, e),
                fd,
                b as c_int,
                c as c_int,
                d as *const _,
                e as u32,
            ),
            libc::SYS_getsockopt => sockets::getsockopt(
                real!(getsockopt, a, b, c, d, e),
                fd,
                b as c_int,
                c as c_int,
                d as *mut _,
                e as *mut _,
            ),
            libc::SYS_close => descriptors::close(real!(close, a), fd),
            libc::SYS_dup => descriptors::dup(real!(dup, a), fd),
            kernel::SYS_dup2 => descriptors::dup2(real!(dup2, a, b), fd, b as c_int),
            libc::SYS_dup3 => descriptors::dup3(real!(dup3, a, b, c), fd, b as c_int, c as c_int),
            libc::SYS_fcntl => descriptors::fcntl(real!(fcntl, a, b, c), fd, b as c_int, c),
            libc::SYS_ioctl => descriptors::ioctl(real!(ioctl, a, b, c), fd, b as u64, c),
            _ => panic!("the tests make no system call {number}"),
        }
    };
    result as isize
}

/// A connected pair of kernel sockets, or of sockets that this crate's calls have made.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The connector and the acceptor, in this order.
    pub(crate) fds: [c_int; 2],
    make: fn(Call) -> Answer,
}

fn call<const N: usize>(make: fn(Call) -> Answer, number: c_long, arguments: [usize; N]) -> Answer {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    make((number, all))
}

impl Pair {
    /// Connects two sockets on loopback, by calls that `make` makes. First passes the connector to `prepare`.
    pub(crate) fn new(make: fn(Call) -> Answer, prepare: impl Fn(c_int)) -> Pair {
        // SAFETY: all pointers are to variables of this function.
        unsafe {
            let listener = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            let mut address: libc::sockaddr_in = core::mem::zeroed();
            address.sin_family = libc::AF_INET as u16;
            address.sin_addr.s_addr = u32::to_be(0x7f00_0001);
            let mut len = size_of_val(&address) as socklen_t;
            let at = (&raw mut address).cast::<sockaddr>();
            assert_eq!(libc::bind(listener, at, len), 0);
            assert_eq!(libc::listen(listener, 1), 0);
            assert_eq!(libc::getsockname(listener, at, &raw mut len), 0);
            let one = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            prepare(one);
            let address = [one as usize, at as usize, len as usize];
            assert_eq!(call(make, libc::SYS_connect, address), Ok(0));
            let other = call(make, libc::SYS_accept, [listener as usize, 0, 0]).unwrap();
            assert_eq!(libc::close(listener), 0);
            Pair { fds: [one, other as c_int], make }
        }
    }

    /// Connects two sockets that Sovia does not follow.
    pub(crate) fn of_kernel() -> Pair {
        Pair::new(kernel::kernel, |_| {})
    }

    /// Connects two sockets, and waits until both use a VI.
    pub(crate) fn accelerated() -> Pair {
        Pair::accelerated_from(|_| {})
    }

    /// Like [`Pair::accelerated`], but first passes the connector to `prepare`.
    pub(crate) fn accelerated_from(prepare: impl Fn(c_int)) -> Pair {
        start();
        let begun = Instant::now();
        loop {
            let pair = Pair::new(ours, &prepare);
            for _ in 0..2_000 {
                if pair.is_accelerated() {
                    return pair;
                }
                pair.send(0, b"ping");
                assert_eq!(pair.receive(1), b"ping");
                pair.send(1, b"pong");
                // Waits for the bytes, because with some time-outs the kernel's read does not wait.
                pair.arrive();
                assert_eq!(pair.receive(0), b"pong");
            }
            assert!(begun.elapsed() < WATCHDOG, "{:?}", pair.fds.map(native::info));
        }
    }

    /// Makes a call in the same way in which this pair was made: by the kernel, or through Sovia.
    pub(crate) fn make(&self, call: Call) -> Answer {
        (self.make)(call)
    }

    /// Returns true if both ends send and receive over the VI.
    pub(crate) fn is_accelerated(&self) -> bool {
        self.fds.iter().all(|&fd| {
            let info = native::info(fd);
            info.is_accelerated() && info.sends == 1 && info.receives == 1
        })
    }

    /// Sends all of `bytes` from an end.
    pub(crate) fn send(&self, end: usize, bytes: &[u8]) {
        let buffer = [self.fds[end] as usize, bytes.as_ptr() as usize, bytes.len()];
        assert_eq!(call(self.make, libc::SYS_write, buffer), Ok(bytes.len()));
    }

    /// Makes one `read` at an end, and returns its bytes.
    pub(crate) fn receive(&self, end: usize) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let buffer = [self.fds[end] as usize, bytes.as_mut_ptr() as usize, bytes.len()];
        bytes.truncate(call(self.make, libc::SYS_read, buffer).unwrap());
        bytes
    }

    /// Receives all unread bytes at an end. Waits for bytes on their way, and for at least `wanted` bytes.
    pub(crate) fn rest(&self, end: usize, wanted: usize) -> Vec<u8> {
        let begun = Instant::now();
        let mut all = Vec::new();
        let mut bytes = [0u8; 4096];
        let flags = libc::MSG_DONTWAIT as usize;
        let buffer = [self.fds[end] as usize, bytes.as_mut_ptr() as usize, bytes.len(), flags];
        loop {
            self.arrive();
            while let Ok(n @ 1..) = call(self.make, libc::SYS_recvfrom, buffer) {
                all.extend_from_slice(&bytes[..n]);
            }
            if all.len() >= wanted || begun.elapsed() > WATCHDOG {
                return all;
            }
            thread::sleep(Duration::from_micros(100));
        }
    }

    /// Waits until all bytes on TCP have reached their receiver.
    pub(crate) fn arrive(&self) {
        let begun = Instant::now();
        // If the receiver's socket is closed, the wait ends at once.
        let received = |fd| {
            let info = getsockopt::<[u64; 17]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO);
            info.map_or(u64::MAX, |info| info[16])
        };
        for end in 0..2 {
            let sent = tcp_bytes_sent(self.fds[end], end == 0).unwrap_or(0);
            while received(self.fds[1 - end]) < sent && begun.elapsed() < WATCHDOG {
                thread::sleep(Duration::from_micros(100));
            }
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for fd in self.fds {
            let _ = call(self.make, libc::SYS_close, [fd as usize]);
        }
    }
}
