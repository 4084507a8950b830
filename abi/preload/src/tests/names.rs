//! Tests hooks under all names of a function: fortified, aliased, 64-bit and variadic names. Each hook must do what
//! libc's function does.

use super::kernel::{Scratch, of_c};
use super::{Pair, close, pipe, start};
use crate::{aliases, creating, descriptors, limits, poll, receive, send};
use libc::{c_int, c_void, iovec, pollfd, rlimit};
use std::fs;

/// A pipe and an accelerated connection, each with ten unread bytes.
struct Sources {
    pipe: [c_int; 2],
    pair: Pair,
}

impl Sources {
    fn new() -> Sources {
        start();
        let sources = Sources { pipe: pipe(), pair: Pair::accelerated() };
        // SAFETY: the constant has ten bytes.
        let written = unsafe { libc::write(sources.pipe[1], b"0123456789".as_ptr().cast(), 10) };
        assert_eq!(written, 10);
        sources.pair.send(0, b"0123456789");
        sources.pair.await_bytes(1, 10);
        sources
    }

    fn fds(&self) -> [c_int; 2] {
        [self.pipe[0], self.pair.fds[1]]
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        close(self.pipe);
    }
}

/// Runs `call` in a child, and returns the signal that ends the child.
fn signal_of<R>(call: impl FnOnce() -> R) -> Option<c_int> {
    // SAFETY: `call` only makes calls that are allowed in the child of a process with threads, or aborts.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            // Hides libc's message about the abort.
            libc::close(libc::STDERR_FILENO);
            call();
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
    }
}

#[test]
fn fortified_receives_take_what_fits_in_the_object() {
    let sources = Sources::new();
    for fd in sources.fds() {
        let mut bytes = [0u8; 16];
        let to: *mut c_void = bytes.as_mut_ptr().cast();
        // SAFETY: `to` has room for 16 bytes.
        let n = unsafe { receive::__read_chk(fd, to, 4, 16) };
        assert_eq!((n, &bytes[..4]), (4, &b"0123"[..]), "descriptor {fd}");
    }
    let fd = sources.pair.fds[1];
    let mut bytes = [0u8; 16];
    let to: *mut c_void = bytes.as_mut_ptr().cast();
    // SAFETY: `to` has room for 16 bytes, and a null address is allowed.
    unsafe {
        assert_eq!(receive::__recv_chk(fd, to, 3, 3, libc::MSG_PEEK), 3);
        assert_eq!(&bytes[..3], b"456");
        let none = (core::ptr::null_mut(), core::ptr::null_mut());
        assert_eq!(receive::__recvfrom_chk(fd, to, 16, 16, 0, none.0, none.1), 6);
    }
    assert_eq!(&bytes[..6], b"456789");
    assert!(sources.pair.is_accelerated());
}

#[test]
fn fortified_receives_beyond_the_object_abort() {
    let sources = Sources::new();
    for fd in sources.fds() {
        let mut bytes = [0u8; 16];
        let to: *mut c_void = bytes.as_mut_ptr().cast();
        let none = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: `to` has room for 16 bytes, and a null address is allowed.
        let aborts = unsafe {
            [
                signal_of(|| receive::__read_chk(fd, to, 5, 4)),
                signal_of(|| receive::__recv_chk(fd, to, 5, 4, 0)),
                signal_of(|| receive::__recvfrom_chk(fd, to, 5, 4, 0, none.0, none.1)),
            ]
        };
        assert_eq!(aborts, [Some(libc::SIGABRT); 3], "descriptor {fd}");
    }
}

#[test]
fn fortified_polls_take_lists_that_fit_in_the_object() {
    let sources = Sources::new();
    for fd in sources.fds() {
        let mut list = [pollfd { fd, events: libc::POLLIN, revents: 0 }; 2];
        let at = list.as_mut_ptr();
        let size = size_of_val(&list);
        let none = (core::ptr::null(), core::ptr::null());
        // SAFETY: the list is a variable of this function. A null time-out and a null mask are allowed.
        unsafe {
            assert_eq!(poll::__poll_chk(at, 2, 0, size), 2);
            assert_eq!(poll::__ppoll_chk(at, 2, none.0, none.1, size), 2);
            // A size that ends within the second entry is enough for one entry.
            assert_eq!(poll::__poll_chk(at, 1, 0, size - 1), 1);
        }
        assert!(list.iter().all(|entry| entry.revents == libc::POLLIN), "{list:?}");
    }
}

#[test]
fn fortified_polls_beyond_the_object_abort() {
    let sources = Sources::new();
    for fd in sources.fds() {
        let mut list = [pollfd { fd, events: libc::POLLIN, revents: 0 }; 2];
        let at = list.as_mut_ptr();
        let none = (core::ptr::null(), core::ptr::null());
        // SAFETY: the list is a variable of this function. A null time-out and a null mask are allowed.
        let aborts = unsafe {
            [
                signal_of(|| poll::__poll_chk(at, 2, 0, 15)),
                signal_of(|| poll::__ppoll_chk(at, 2, none.0, none.1, 15)),
            ]
        };
        assert_eq!(aborts, [Some(libc::SIGABRT); 2], "descriptor {fd}");
    }
}

#[test]
fn second_names_of_receives_and_sends_move_bytes() {
    let sources = Sources::new();
    for [from, to] in [sources.pipe, [sources.pair.fds[1], sources.pair.fds[0]]] {
        let mut bytes = [0u8; 16];
        let at: *mut c_void = bytes.as_mut_ptr().cast();
        // SAFETY: the buffer has room for 16 bytes, and the reads return ten bytes in all.
        unsafe {
            assert_eq!(aliases::__read(from, at, 4), 4);
            assert_eq!(aliases::__read_nocancel(from, at.add(4), 16), 6);
            assert_eq!(&bytes[..10], b"0123456789");
            assert_eq!(aliases::__write(to, at, 4), 4);
            assert_eq!(aliases::__write_nocancel(to, at, 2), 2);
            bytes.fill(0);
        }
        if from == sources.pair.fds[1] {
            assert_eq!(sources.pair.receive(1), b"012301");
        }
    }
    let [one, other] = sources.pair.fds;
    let mut byte = [0u8; 4];
    let at: *mut c_void = byte.as_mut_ptr().cast();
    // SAFETY: the buffer has room for four bytes.
    unsafe {
        assert_eq!(aliases::__send(one, b"abcd".as_ptr().cast(), 4, 0), 4);
        assert_eq!(aliases::__recv(other, at, 4, 0), 4);
    }
    assert_eq!(&byte, b"abcd");
    assert!(sources.pair.is_accelerated());
}

#[test]
fn second_names_of_polls_see_an_accelerated_connection() {
    let sources = Sources::new();
    for fd in sources.fds() {
        let mut entry = pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut bits = [0u64; 16];
        bits[fd as usize / 64] |= 1 << (fd % 64);
        let wanted = bits;
        let none = core::ptr::null_mut();
        // SAFETY: the list and the set are variables of this function. A null time-out is allowed.
        unsafe {
            assert_eq!(aliases::__poll(&raw mut entry, 1, 0), 1);
            let set = bits.as_mut_ptr().cast();
            assert_eq!(aliases::__select(fd + 1, set, none, none, core::ptr::null_mut()), 1);
        }
        assert_eq!((entry.revents, bits), (libc::POLLIN, wanted));
    }
}

#[test]
fn second_names_of_descriptor_calls_keep_the_table() {
    let sources = Sources::new();
    let [one, other] = sources.pair.fds;
    // SAFETY: the calls take only numbers.
    unsafe {
        let copy = aliases::__fcntl(other, libc::F_DUPFD_CLOEXEC, 500);
        assert!(copy >= 500);
        let second = aliases::__libc_fcntl64(copy, libc::F_DUPFD, 500);
        assert!(second > copy);
        assert_eq!(aliases::__dup2(copy, second), second);
        let mut bytes = [0u8; 10];
        let read = receive::read(second, bytes.as_mut_ptr().cast(), 10);
        assert_eq!((read, &bytes), (10, b"0123456789"));
        assert_eq!(aliases::__close(copy), 0);
        assert_eq!(aliases::__close_nocancel(second), 0);
        assert_eq!(of_c(|| aliases::__close(second) as isize), Err(libc::EBADF));
    }
    assert_eq!(sources.pair.fds, [one, other]);
    assert!(sources.pair.is_accelerated());
}

#[test]
fn positioned_vectors_have_the_same_two_names() {
    let sources = Sources::new();
    let mut bytes = [0u8; 4];
    let entry = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 4 };
    let at = &raw const entry;
    for fd in sources.fds() {
        // SAFETY: the buffer is a variable of this function.
        unsafe {
            assert_eq!(receive::preadv2(fd, at, 1, -1, 0), 4);
            assert_eq!(receive::preadv64v2(fd, at, 1, -1, 0), 4);
            let seek = of_c(|| receive::preadv64v2(fd, at, 1, 0, 0));
            assert_eq!(seek, Err(libc::ESPIPE), "descriptor {fd}");
            let flags = of_c(|| receive::preadv64v2(fd, at, 1, 0, 0x4000));
            assert_eq!(flags, Err(libc::ESPIPE), "descriptor {fd}");
        }
        assert_eq!(&bytes, b"4567");
    }
    // SAFETY: the buffer is a variable of this function.
    unsafe {
        assert_eq!(send::pwritev2(sources.pair.fds[0], at, 1, -1, 0), 4);
        assert_eq!(send::pwritev64v2(sources.pair.fds[0], at, 1, -1, 0), 4);
        let seek = of_c(|| send::pwritev64v2(sources.pair.fds[0], at, 1, 0, 0));
        assert_eq!(seek, Err(libc::ESPIPE));
    }
    assert!(sources.pair.is_accelerated());
}

#[test]
fn close_range_that_the_kernel_refuses_closes_no_connection() {
    let sources = Sources::new();
    let first = sources.pair.fds[0] as u32;
    let range = |first: u32, last: u32, flags: c_int| {
        // SAFETY: the call takes only numbers.
        of_c(|| unsafe { descriptors::close_range(first, last, flags) } as isize)
    };
    for flags in [1, 1 << 10, -1, c_int::MIN] {
        assert_eq!(range(first, first, flags), Err(libc::EINVAL), "{flags:x}");
        assert!(sources.pair.is_accelerated(), "{flags:x}");
    }
    for (first, last) in [(1, 0), (first + 1, first), (u32::MAX, 0)] {
        assert_eq!(range(first, last, 0), Err(libc::EINVAL), "{first} to {last}");
    }
    assert!(sources.pair.is_accelerated());
}

/// Returns a path in the folder for temporary files, as a C string.
fn path(name: &str) -> std::ffi::CString {
    let path = std::env::temp_dir().join(format!("sovia-names-{}-{name}", std::process::id()));
    std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap()
}

#[test]
fn each_open_passes_the_mode_of_a_new_file_on() {
    start();
    type Open = unsafe extern "C" fn(*const libc::c_char, c_int, libc::mode_t) -> c_int;
    type OpenAt = unsafe extern "C" fn(c_int, *const libc::c_char, c_int, libc::mode_t) -> c_int;
    const HOW: c_int = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
    let path = path("mode");
    let check = |fd: c_int, name: &str| {
        assert!(fd >= 0, "{name}");
        // SAFETY: all zeros are a valid `stat`, and the test owns the descriptor.
        let mode = unsafe {
            let mut status: libc::stat = core::mem::zeroed();
            assert_eq!(libc::fstat(fd, &raw mut status), 0);
            libc::close(fd);
            status.st_mode
        };
        assert_eq!(mode & 0o777, 0o400, "{name}");
        fs::remove_file(path.to_str().unwrap()).unwrap();
    };
    let opens: [(&str, Open); 6] = [
        ("open", creating::open),
        ("open64", creating::open64),
        ("__open", creating::__open),
        ("__open64", creating::__open64),
        ("__open_nocancel", creating::__open_nocancel),
        ("__open64_nocancel", creating::__open64_nocancel),
    ];
    for (name, open) in opens {
        // libc may export these names only to its own libraries. Then the call fails with ENOSYS.
        // SAFETY: the path is a C string.
        let fd = unsafe { open(path.as_ptr(), HOW, 0o400) };
        if fd < 0 && name.ends_with("nocancel") {
            assert_eq!(sovia_calls::errno(), libc::ENOSYS, "{name}");
            continue;
        }
        check(fd, name);
    }
    let opens: [(&str, OpenAt); 2] =
        [("openat", creating::openat), ("openat64", creating::openat64)];
    for (name, open) in opens {
        // SAFETY: the path is a C string.
        check(unsafe { open(libc::AT_FDCWD, path.as_ptr(), HOW, 0o400) }, name);
    }
    // SAFETY: the paths are C strings.
    unsafe {
        check(creating::creat(path.as_ptr(), 0o400), "creat");
        check(creating::creat64(path.as_ptr(), 0o400), "creat64");
    }
}

#[test]
fn opens_that_fail_have_the_kernels_errors() {
    start();
    let missing = path("missing");
    // SAFETY: the path is a C string, or an address that the kernel refuses.
    unsafe {
        let missing = missing.as_ptr();
        assert_eq!(of_c(|| creating::open(missing, 0, 0) as isize), Err(libc::ENOENT));
        assert_eq!(of_c(|| creating::__open_2(missing, 0) as isize), Err(libc::ENOENT));
        assert_eq!(of_c(|| creating::__open64_2(missing, 0) as isize), Err(libc::ENOENT));
        assert_eq!(of_c(|| creating::openat(-1, c"x".as_ptr(), 0, 0) as isize), Err(libc::EBADF));
        assert_eq!(of_c(|| creating::open(core::ptr::null(), 0, 0) as isize), Err(libc::EFAULT));
        let far = 0xdead_0000_0000_0000usize as *const libc::c_char;
        assert_eq!(of_c(|| creating::open64(far, 0, 0) as isize), Err(libc::EFAULT));
        assert!(creating::several::fopen64(missing, c"r".as_ptr()).is_null());
    }
}

#[test]
fn functions_that_return_two_descriptors_report_bad_addresses() {
    start();
    let scratch = Scratch::new();
    let end = scratch.end() as *mut c_int;
    let half = scratch.edge(4) as *mut c_int;
    let mut room = [-1; 2];
    // SAFETY: the kernel refuses the bad addresses, and the other array has room for two numbers.
    unsafe {
        use creating::several::{__pipe, pipe, pipe2, socketpair};
        let unix = |fds| socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, fds);
        for bad in [core::ptr::null_mut(), end, half] {
            assert_eq!(of_c(|| pipe(bad) as isize), Err(libc::EFAULT));
            assert_eq!(of_c(|| __pipe(bad) as isize), Err(libc::EFAULT));
            assert_eq!(of_c(|| pipe2(bad, 0) as isize), Err(libc::EFAULT));
            assert_eq!(of_c(|| unix(bad) as isize), Err(libc::EFAULT));
        }
        assert_eq!(of_c(|| pipe2(room.as_mut_ptr(), -1) as isize), Err(libc::EINVAL));
        assert_eq!(room, [-1; 2]);
        assert_eq!(of_c(|| unix(room.as_mut_ptr()) as isize), Ok(0));
        close(room);
    }
}

#[test]
fn limits_have_the_same_two_names() {
    start();
    let limit = |call: &dyn Fn(*mut rlimit) -> c_int| {
        let mut limit = rlimit { rlim_cur: 1, rlim_max: 2 };
        assert_eq!(call(&raw mut limit), 0);
        (limit.rlim_cur, limit.rlim_max)
    };
    let none = core::ptr::null();
    let [by_one, by_other, by_libc] = [
        // SAFETY: `to` has room for a limit.
        limit(&|to| unsafe { limits::prlimit(0, libc::RLIMIT_CORE, none, to) }),
        // SAFETY: `to` has room for a limit.
        limit(&|to| unsafe { limits::prlimit64(0, libc::RLIMIT_CORE, none, to) }),
        // SAFETY: `to` has room for a limit.
        limit(&|to| unsafe { libc::getrlimit(libc::RLIMIT_CORE, to) }),
    ];
    assert_eq!([by_one, by_other], [by_libc; 2]);
    // SAFETY: the kernel refuses the bad address.
    unsafe {
        let bad = 16 as *const rlimit;
        assert_eq!(of_c(|| limits::setrlimit(libc::RLIMIT_CORE, bad) as isize), Err(libc::EFAULT));
        assert_eq!(of_c(|| limits::setrlimit64(99, bad) as isize), Err(libc::EFAULT));
    }
}

#[test]
fn fcntl_and_ioctl_pass_their_third_argument_on() {
    start();
    let fds = pipe();
    // SAFETY: the calls take numbers, and the address of a variable of this function.
    unsafe {
        assert_eq!(descriptors::fcntl(fds[0], libc::F_SETFL, libc::O_NONBLOCK as usize), 0);
        assert_ne!(descriptors::fcntl64(fds[0], libc::F_GETFL, 0) & libc::O_NONBLOCK, 0);
        assert_eq!(descriptors::fcntl(fds[0], libc::F_SETPIPE_SZ, 8192), 8192);
        assert_eq!(descriptors::fcntl(fds[0], libc::F_GETPIPE_SZ, 0), 8192);
        let mut off = 0i32;
        let at = (&raw mut off) as usize;
        assert_eq!(descriptors::ioctl(fds[0], libc::FIONBIO, at), 0);
        assert_eq!(descriptors::fcntl64(fds[0], libc::F_GETFL, 0) & libc::O_NONBLOCK, 0);
        assert_eq!(
            of_c(|| descriptors::ioctl(fds[0], libc::FIONBIO, 8) as isize),
            Err(libc::EFAULT)
        );
    }
    close(fds);
}

#[test]
fn close_range_marks_or_closes_a_descriptor_of_a_connection() {
    let sources = Sources::new();
    // SAFETY: the call takes only numbers.
    let copy = unsafe { descriptors::fcntl(sources.pair.fds[1], libc::F_DUPFD, 450) };
    assert!(copy >= 450);
    let range = |first: c_int, flags: c_int| {
        // SAFETY: the call takes only numbers.
        unsafe { descriptors::close_range(first as u32, first as u32, flags) }
    };
    assert_eq!(range(copy, libc::CLOSE_RANGE_CLOEXEC as c_int), 0);
    // SAFETY: the call takes only numbers.
    assert_eq!(unsafe { libc::fcntl(copy, libc::F_GETFD) }, libc::FD_CLOEXEC);
    assert!(sovia_sockets::table::conn(copy).is_some());
    assert_eq!(range(copy, 0), 0);
    // SAFETY: the call takes only numbers.
    assert_eq!(unsafe { libc::fcntl(copy, libc::F_GETFD) }, -1);
    assert!(sovia_sockets::table::conn(copy).is_none());
    assert!(sources.pair.is_accelerated());
}
