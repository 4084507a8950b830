//! Creates, connects and accepts sockets.

use crate::is_preloaded;
use crate::kind::{self, SOCK_VIA, TYPE_MASK};
use libc::{c_int, sockaddr, socklen_t};
use sovia_calls::set_errno;
use sovia_calls::sockets as calls;
use sovia_sockets::native;

natives! {
    fn sov_shutdown = libc::shutdown, calls::shutdown, (fd: c_int, how: c_int) -> c_int;
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    native::engine();
    let via = kind & TYPE_MASK == SOCK_VIA;
    if via && domain != libc::AF_INET && domain != libc::AF_INET6 {
        set_errno(libc::EAFNOSUPPORT);
        return -1;
    }
    let real = if via { kind & !TYPE_MASK | libc::SOCK_STREAM } else { kind };
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(domain, real, protocol) };
    if fd >= 0 {
        kind::set(fd, via);
    }
    fd
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the C caller passes an `address` with `len` readable bytes, as bind(2) requires.
    unsafe { libc::bind(fd, address, len) }
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_listen(fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: takes numbers only.
    unsafe { libc::listen(fd, backlog) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the C caller passes an `address` with `len` readable bytes, as connect(2) requires.
    unsafe {
        if is_preloaded() || !kind::is_via(fd) {
            return libc::connect(fd, address, len);
        }
        calls::connect(|fd, address, len| libc::connect(fd, address, len), fd, address, len)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_accept(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the C caller passes null or writable memory for the address, as accept(2) requires.
    unsafe {
        let new = if is_preloaded() || !kind::is_via(fd) {
            libc::accept(fd, address, len)
        } else {
            calls::accept(|fd, address, len| libc::accept(fd, address, len), fd, address, len)
        };
        if new >= 0 {
            kind::copy(fd, new);
        }
        new
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the C caller passes null or writable memory for the address, as accept4(2) requires.
    unsafe {
        let real = |fd, address, len, flags| libc::accept4(fd, address, len, flags);
        let new = if is_preloaded() || !kind::is_via(fd) {
            real(fd, address, len, flags)
        } else {
            calls::accept4(real, fd, address, len, flags)
        };
        if new >= 0 {
            kind::copy(fd, new);
        }
        new
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_getsockname(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the C caller passes writable memory for the address, as getsockname(2) requires.
    unsafe { libc::getsockname(fd, address, len) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_getpeername(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the C caller passes writable memory for the address, as getpeername(2) requires.
    unsafe { libc::getpeername(fd, address, len) }
}
