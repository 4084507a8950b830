//! read and its relatives.

use crate::{finish, outcome};
use libc::{c_int, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, timespec};
use sovia_calls as calls;
use sovia_sockets::retreat::{self, Cause};
use sovia_sockets::table;

hooks! {
    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> isize {
        calls::receive::read(later!(), fd, buf, len)
    }

    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t) -> isize {
        if table::conn(fd).is_none() || len > size {
            return real!()(fd, buf, len, size);
        }
        read(fd, buf, len)
    }

    fn recv(fd: c_int, buf: *mut c_void, len: size_t, how: c_int) -> isize {
        calls::receive::recv(later!(), fd, buf, len, how)
    }

    fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, how: c_int) -> isize {
        if table::conn(fd).is_none() || len > size {
            return real!()(fd, buf, len, size, how);
        }
        recv(fd, buf, len, how)
    }

    fn recvfrom(
        fd: c_int, buf: *mut c_void, len: size_t, how: c_int,
        from: *mut sockaddr, from_len: *mut socklen_t,
    ) -> isize {
        let recv = |fd, buf, len, how| recv(fd, buf, len, how);
        calls::receive::recvfrom(later!(), recv, fd, buf, len, how, from, from_len)
    }

    fn __recvfrom_chk(
        fd: c_int, buf: *mut c_void, len: size_t, size: size_t, how: c_int,
        from: *mut sockaddr, from_len: *mut socklen_t,
    ) -> isize {
        if table::conn(fd).is_none() || len > size {
            return real!()(fd, buf, len, size, how, from, from_len);
        }
        recvfrom(fd, buf, len, how, from, from_len)
    }

    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> isize {
        calls::receive::readv(later!(), fd, iov, count)
    }

    fn recvmsg(fd: c_int, msg: *mut msghdr, how: c_int) -> isize {
        calls::receive::recvmsg(later!(), fd, msg, how)
    }

    fn recvmmsg(
        fd: c_int, list: *mut mmsghdr, count: u32, how: c_int, timeout: *mut timespec,
    ) -> c_int {
        let recvmsg = |fd, msg, how| recvmsg(fd, msg, how);
        calls::receive::recvmmsg(later!(), recvmsg, fd, list, count, how, timeout)
    }

    fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: i64, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            return real!()(fd, iov, count, offset, how);
        };
        if offset == -1 && how == 0 {
            return readv(fd, iov, count);
        }
        let kernel = || outcome(real!()(fd, iov, count, offset, how));
        if offset == -1 {
            retreat::now(fd, at, Cause::Call);
        }
        finish(kernel())
    }
}
