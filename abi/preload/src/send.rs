//! Hooks for write, send and other calls that send.

use crate::{finish, outcome};
use libc::{c_int, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t};
use sovia_calls as calls;
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::table;

hooks! {
    fn write(fd: c_int, buf: *const c_void, len: size_t) -> isize {
        calls::send::write(later!(), fd, buf, len)
    }

    fn send(fd: c_int, buf: *const c_void, len: size_t, how: c_int) -> isize {
        calls::send::send(later!(), fd, buf, len, how)
    }

    fn sendto(
        fd: c_int, buf: *const c_void, len: size_t, how: c_int,
        to: *const sockaddr, to_len: socklen_t,
    ) -> isize {
        let send = |fd, buf, len, how| send(fd, buf, len, how);
        calls::send::sendto(later!(), send, fd, buf, len, how, to, to_len)
    }

    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> isize {
        calls::send::writev(later!(), fd, iov, count)
    }

    fn sendmsg(fd: c_int, msg: *const msghdr, how: c_int) -> isize {
        calls::send::sendmsg(later!(), fd, msg, how)
    }

    fn sendmmsg(fd: c_int, list: *mut mmsghdr, count: u32, how: c_int) -> c_int {
        let sendmsg = |fd, msg, how| sendmsg(fd, msg, how);
        calls::send::sendmmsg(later!(), sendmsg, fd, list, count, how)
    }

    fn pwritev64v2(fd: c_int, iov: *const iovec, count: c_int, offset: i64, how: c_int) -> isize {
        pwritev2(fd, iov, count, offset, how)
    }

    fn pwritev2(fd: c_int, iov: *const iovec, count: c_int, offset: i64, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            return real!()(fd, iov, count, offset, how);
        };
        if offset == -1 && how == 0 {
            return writev(fd, iov, count);
        }
        let kernel = || outcome(real!()(fd, iov, count, offset, how));
        if offset == -1 {
            fallback::now(fd, at, Cause::Call);
        }
        finish(kernel())
    }

    fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> isize {
        calls::send::sendfile(later!(), out, from, offset, count)
    }

    fn sendfile64(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> isize {
        sendfile(out, from, offset, count)
    }

    fn splice(
        from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, how: u32,
    ) -> isize {
        calls::send::splice(later!(), from, from_offset, to, to_offset, len, how)
    }
}
