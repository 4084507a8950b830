//! Hooks for read, recv and other calls that receive.

use crate::{finish, outcome};
use libc::{c_int, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, timespec};
use sovia_calls as calls;
use sovia_calls::descriptors::received;
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::table;
use sovia_sockets::wait::before_kernel_wait;

/// Records the descriptors that have arrived with a message on `channel`. After a receive with MSG_PEEK, another
/// process may receive the same descriptors from the channel. Then this function records -1, an unknown channel.
unsafe fn arrived(channel: c_int, msg: *const msghdr, how: c_int) {
    let channel = if how & libc::MSG_PEEK == 0 { channel } else { -1 };
    // SAFETY: the kernel has just filled in the caller's message. The walk stays within the control messages that
    // the kernel has written.
    unsafe {
        if (*msg).msg_controllen <= size_of::<libc::cmsghdr>() {
            return;
        }
        let mut header = libc::CMSG_FIRSTHDR(msg);
        while !header.is_null() {
            let kind = (*header).cmsg_type;
            if (*header).cmsg_level == libc::SOL_SOCKET
                && (kind == libc::SCM_RIGHTS || kind == SCM_PIDFD)
            {
                let data = libc::CMSG_DATA(header).cast::<c_int>();
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                for i in 0..bytes / size_of::<c_int>() {
                    received(channel, data.add(i).read_unaligned());
                }
            }
            header = libc::CMSG_NXTHDR(msg, header);
        }
    }
}

/// Type of the control message with the sender's pidfd.
const SCM_PIDFD: c_int = 4;

hooks! {
    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> isize {
        calls::receive::read(later!(), fd, buf, len)
    }

    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t) -> isize {
        if table::conn(fd).is_none() || len > size {
            before_kernel_wait();
            return real!()(fd, buf, len, size);
        }
        read(fd, buf, len)
    }

    fn recv(fd: c_int, buf: *mut c_void, len: size_t, how: c_int) -> isize {
        calls::receive::recv(later!(), fd, buf, len, how)
    }

    fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, how: c_int) -> isize {
        if table::conn(fd).is_none() || len > size {
            before_kernel_wait();
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
            before_kernel_wait();
            return real!()(fd, buf, len, size, how, from, from_len);
        }
        recvfrom(fd, buf, len, how, from, from_len)
    }

    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> isize {
        calls::receive::readv(later!(), fd, iov, count)
    }

    fn recvmsg(fd: c_int, msg: *mut msghdr, how: c_int) -> isize {
        let result = calls::receive::recvmsg(later!(), fd, msg, how);
        if result >= 0 {
            arrived(fd, msg, how);
        }
        result
    }

    fn recvmmsg(
        fd: c_int, list: *mut mmsghdr, count: u32, how: c_int, timeout: *mut timespec,
    ) -> c_int {
        let recvmsg = |fd, msg, how| recvmsg(fd, msg, how);
        let result = calls::receive::recvmmsg(later!(), recvmsg, fd, list, count, how, timeout);
        for i in 0..result.max(0) as usize {
            arrived(fd, &raw const (*list.add(i)).msg_hdr, how);
        }
        result
    }

    fn preadv64v2(fd: c_int, iov: *const iovec, count: c_int, offset: i64, how: c_int) -> isize {
        preadv2(fd, iov, count, offset, how)
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
            fallback::now(fd, at, Cause::Call);
        }
        finish(kernel())
    }
}
