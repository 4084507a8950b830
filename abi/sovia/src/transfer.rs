//! Sends and receives bytes.

use libc::{
    c_int, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
};
use sovia_calls::{receive, send};

natives! {
    fn sov_read = libc::read, receive::read,
        (fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t;
    fn sov_recv = libc::recv, receive::recv,
        (fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sov_readv = libc::readv, receive::readv,
        (fd: c_int, iov: *const iovec, count: c_int) -> ssize_t;
    fn sov_recvmsg = libc::recvmsg, receive::recvmsg,
        (fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t;
    fn sov_recvfrom = libc::recvfrom, recvfrom,
        (fd: c_int, buf: *mut c_void, len: size_t, flags: c_int,
         from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    fn sov_recvmmsg = libc::recvmmsg, recvmmsg,
        (fd: c_int, list: *mut mmsghdr, count: u32, flags: c_int,
         timeout: *mut timespec) -> c_int;
    fn sov_write = libc::write, send::write,
        (fd: c_int, buf: *const c_void, len: size_t) -> ssize_t;
    fn sov_send = libc::send, send::send,
        (fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sov_writev = libc::writev, send::writev,
        (fd: c_int, iov: *const iovec, count: c_int) -> ssize_t;
    fn sov_sendmsg = libc::sendmsg, send::sendmsg,
        (fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t;
    fn sov_sendto = libc::sendto, sendto,
        (fd: c_int, buf: *const c_void, len: size_t, flags: c_int,
         to: *const sockaddr, to_len: socklen_t) -> ssize_t;
    fn sov_sendmmsg = libc::sendmmsg, sendmmsg,
        (fd: c_int, list: *mut mmsghdr, count: u32, flags: c_int) -> c_int;
    fn sov_sendfile = libc::sendfile, send::sendfile,
        (to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    fn sov_splice = libc::splice, send::splice,
        (from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64,
         len: size_t, flags: u32) -> ssize_t;
}

unsafe fn recvfrom(
    real: impl Fn(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the C caller passes arguments that are valid for recvfrom(2).
    unsafe {
        let recv = |fd, buf, len, flags| sov_recv(fd, buf, len, flags);
        receive::recvfrom(real, recv, fd, buf, len, flags, from, from_len)
    }
}

unsafe fn recvmmsg(
    real: impl Fn(c_int, *mut mmsghdr, u32, c_int, *mut timespec) -> c_int,
    fd: c_int,
    list: *mut mmsghdr,
    count: u32,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: the C caller passes arguments that are valid for recvmmsg(2).
    unsafe {
        let recvmsg = |fd, msg, flags| sov_recvmsg(fd, msg, flags);
        receive::recvmmsg(real, recvmsg, fd, list, count, flags, timeout)
    }
}

unsafe fn sendto(
    real: impl Fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    // SAFETY: the C caller passes arguments that are valid for sendto(2).
    unsafe {
        let send = |fd, buf, len, flags| sov_send(fd, buf, len, flags);
        send::sendto(real, send, fd, buf, len, flags, to, to_len)
    }
}

unsafe fn sendmmsg(
    real: impl Fn(c_int, *mut mmsghdr, u32, c_int) -> c_int,
    fd: c_int,
    list: *mut mmsghdr,
    count: u32,
    flags: c_int,
) -> c_int {
    // SAFETY: the C caller passes arguments that are valid for sendmmsg(2).
    unsafe {
        let sendmsg = |fd, msg, flags| sov_sendmsg(fd, msg, flags);
        send::sendmmsg(real, sendmsg, fd, list, count, flags)
    }
}
