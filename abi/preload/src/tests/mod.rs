//! Starts the library in the test program, and makes calls through the hooks.

#[path = "../../../testing/kernel.rs"]
pub(crate) mod kernel;

mod names;
mod raw;
mod signals;
mod unmapped;

use kernel::{Answer, Call, of_c};
use libc::{c_int, c_long, sockaddr, socklen_t};
use sovia_sockets::native;
use std::sync::Once;
use std::time::{Duration, Instant};

/// Time limit for every wait of a test.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Starts the library as its constructor does, but ignores the system's rules and the environment.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        kernel::watch();
        crate::look_ups::resolve_all();
        crate::process::start();
        crate::handles::start();
        crate::signals::start();
        crate::jumps::start();
        crate::heap::start();
        crate::stdio::start();
        sovia_sockets::start();
    });
}

#[test]
fn calls_of_libc_by_the_test_program_reach_libc() {
    start();
    let hook = crate::receive::read as *const () as usize;
    assert_ne!(libc::read as *const () as usize, hook);
    assert_eq!(crate::receive::reals::read.address(), libc::read as *const () as usize);
}

/// Makes a system call through the hook of `syscall`.
pub(crate) fn by_number((number, [a, b, c, d, e, f]): Call) -> Answer {
    let [a, b, c, d, e, f] = [a, b, c, d, e, f].map(|argument| argument as c_long);
    // SAFETY: the tests pass addresses within a `Scratch`, or addresses that the call must refuse.
    of_c(|| unsafe { crate::raw::syscall(number, a, b, c, d, e, f) as isize })
}

/// Makes a pipe.
pub(crate) fn pipe() -> [c_int; 2] {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for both numbers.
    assert_eq!(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    fds
}

/// Closes descriptors through libc.
pub(crate) fn close(fds: [c_int; 2]) {
    for fd in fds {
        // SAFETY: the test owns the descriptor.
        assert_eq!(unsafe { libc::close(fd) }, 0);
    }
}

/// A connected pair of kernel sockets, or of sockets that the hooks have made.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The connector and the acceptor, in this order.
    pub(crate) fds: [c_int; 2],
    is_ours: bool,
}

impl Pair {
    fn new(is_ours: bool) -> Pair {
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
            let none = (core::ptr::null_mut(), core::ptr::null_mut());
            let other = if is_ours {
                assert_eq!(crate::sockets::connect(one, at, len), 0);
                crate::sockets::accept(listener, none.0, none.1)
            } else {
                assert_eq!(libc::connect(one, at, len), 0);
                libc::accept(listener, none.0, none.1)
            };
            assert!(other >= 0);
            assert_eq!(libc::close(listener), 0);
            Pair { fds: [one, other], is_ours }
        }
    }

    /// Connects two sockets that Sovia does not follow.
    pub(crate) fn of_kernel() -> Pair {
        Pair::new(false)
    }

    /// Connects two sockets, and waits until both use a VI. One engine serves both ends.
    pub(crate) fn accelerated() -> Pair {
        start();
        let begun = Instant::now();
        loop {
            let pair = Pair::new(true);
            for _ in 0..2_000 {
                if pair.is_accelerated() {
                    return pair;
                }
                for end in 0..2 {
                    pair.send(end, b"ping");
                    assert_eq!(pair.receive(1 - end), b"ping");
                }
            }
            assert!(begun.elapsed() < WATCHDOG, "{:?}", pair.fds.map(native::info));
        }
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
        let make = if self.is_ours { by_number } else { kernel::kernel };
        let arguments = [self.fds[end] as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
        assert_eq!(make((libc::SYS_write, arguments)), Ok(bytes.len()));
    }

    /// Makes one `read` at an end, and returns its bytes.
    pub(crate) fn receive(&self, end: usize) -> Vec<u8> {
        let make = if self.is_ours { by_number } else { kernel::kernel };
        let mut bytes = vec![0; 4096];
        let arguments = [self.fds[end] as usize, bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0];
        bytes.truncate(make((libc::SYS_read, arguments)).unwrap());
        bytes
    }

    /// Waits until an end has `count` unread bytes.
    pub(crate) fn await_bytes(&self, end: usize, count: usize) {
        let make = if self.is_ours { by_number } else { kernel::kernel };
        let begun = Instant::now();
        let mut unread = 0i32;
        while (unread as usize) < count {
            let answer = (&raw mut unread) as usize;
            let request = libc::FIONREAD as usize;
            let call = (libc::SYS_ioctl, [self.fds[end] as usize, request, answer, 0, 0, 0]);
            assert_eq!(make(call), Ok(0));
            assert!(begun.elapsed() < WATCHDOG, "{unread} of {count} bytes have come");
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for fd in self.fds {
            // SAFETY: this value owns the descriptor.
            let closed = unsafe {
                if self.is_ours { crate::descriptors::close(fd) } else { libc::close(fd) }
            };
            assert_eq!(closed, 0);
        }
    }
}
