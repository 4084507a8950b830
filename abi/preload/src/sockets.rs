//! Hooks that open, accept, configure and shut down connections.

use libc::{c_int, c_void, sockaddr, socklen_t};
use sovia_calls as calls;
use sovia_calls::descriptors::created;

hooks! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        let fd = created(real!()(domain, kind, protocol));
        calls::sockets::made(fd, domain, kind, protocol)
    }

    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        calls::sockets::connect(later!(), fd, address, len)
    }

    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        calls::sockets::accept(later!(), fd, address, len)
    }

    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, how: c_int) -> c_int {
        calls::sockets::accept4(later!(), fd, address, len, how)
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        calls::sockets::shutdown(later!(), fd, how)
    }

    fn setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t,
    ) -> c_int {
        calls::sockets::setsockopt(later!(), fd, level, name, value, len)
    }

    fn getsockopt(
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t,
    ) -> c_int {
        calls::sockets::getsockopt(later!(), fd, level, name, value, len)
    }
}
