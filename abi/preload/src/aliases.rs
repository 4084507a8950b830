//! Second names that glibc has for functions. Some libraries call functions by these names.

use crate::creating::several;
use crate::{children, descriptors, poll, receive, send, sockets};
use libc::timeval;
use libc::{
    FILE, c_char, c_int, c_uint, c_void, fd_set, mmsghdr, nfds_t, pid_t, pollfd, size_t, sockaddr,
    socklen_t,
};

/// Defines functions with second names. Each function calls the hook with the first name, so no look-up of the real
/// function is needed.
macro_rules! aliases {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            // SAFETY: the alias has the contract of the hook that it calls.
            unsafe { $body }
        }
    )*};
}

aliases! {
    fn __close(fd: c_int) -> c_int {
        descriptors::close(fd)
    }

    fn __socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        sockets::socket(domain, kind, protocol)
    }

    fn __close_nocancel(fd: c_int) -> c_int {
        descriptors::close(fd)
    }

    fn _IO_fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
        several::fopen(path, mode)
    }

    fn _IO_popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
        crate::process::popen(command, mode)
    }

    fn __libc_system(command: *const c_char) -> c_int {
        crate::process::system(command)
    }

    fn __fork() -> pid_t {
        children::fork()
    }

    fn __clone(
        main: Option<children::Main>, stack: *mut c_void, flags: c_int, argument: *mut c_void,
        parent_id: *mut pid_t, tls: *mut c_void, child_id: *mut pid_t,
    ) -> c_int {
        children::clone(main, stack, flags, argument, parent_id, tls, child_id)
    }

    fn __backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> () {
        crate::process::backtrace_symbols_fd(addresses, count, fd)
    }

    fn __dup2(fd: c_int, to: c_int) -> c_int {
        descriptors::dup2(fd, to)
    }

    fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        descriptors::fcntl(fd, command, argument)
    }

    fn __libc_fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        descriptors::fcntl(fd, command, argument)
    }

    fn __read(fd: c_int, buf: *mut c_void, len: size_t) -> isize {
        receive::read(fd, buf, len)
    }

    fn __read_nocancel(fd: c_int, buf: *mut c_void, len: size_t) -> isize {
        receive::read(fd, buf, len)
    }

    fn __recv(fd: c_int, buf: *mut c_void, len: size_t, how: c_int) -> isize {
        receive::recv(fd, buf, len, how)
    }

    fn __write(fd: c_int, buf: *const c_void, len: size_t) -> isize {
        send::write(fd, buf, len)
    }

    fn __write_nocancel(fd: c_int, buf: *const c_void, len: size_t) -> isize {
        send::write(fd, buf, len)
    }

    fn __send(fd: c_int, buf: *const c_void, len: size_t, how: c_int) -> isize {
        send::send(fd, buf, len, how)
    }

    fn __sendmmsg(fd: c_int, list: *mut mmsghdr, count: c_uint, how: c_int) -> c_int {
        send::sendmmsg(fd, list, count, how)
    }

    fn __connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        crate::sockets::connect(fd, address, len)
    }

    fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        poll::poll(fds, count, timeout)
    }

    fn __select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        poll::select(count, read, write, except, timeout)
    }
}
