//! read and its relatives.

use crate::boundary::{finish, is_bad, outcome};
use crate::buffers::{buffer, parts};
use libc::{c_int, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, timespec};
use sovia_sockets::ops::{self, Flags};
use sovia_sockets::retreat::{self, Cause};
use sovia_sockets::table;

/// Flags that are carried on a VI; a call with any other goes back to TCP first.
const CARRIED: c_int = libc::MSG_DONTWAIT
    | libc::MSG_PEEK
    | libc::MSG_WAITALL
    | libc::MSG_NOSIGNAL
    | libc::MSG_CMSG_CLOEXEC;

fn flags(flags: c_int) -> Flags {
    Flags {
        dont_wait: flags & libc::MSG_DONTWAIT != 0,
        peek: flags & libc::MSG_PEEK != 0,
        wait_all: flags & libc::MSG_WAITALL != 0,
        no_signal: true,
        empty_waits: true,
    }
}

calls! {
    fn read(real, fd: c_int, buf: *mut c_void, len: size_t) -> isize {
        let Some(at) = table::conn(fd) else { return real(fd, buf, len) };
        // SAFETY: read's own contract.
        let Some(part) = buffer(buf, len) else { return finish(Err(libc::EFAULT)) };
        let kernel = || outcome(real(fd, buf, len));
        finish(ops::receive(fd, at, &mut [part], Flags::default(), kernel))
    }

    fn recv(real, fd: c_int, buf: *mut c_void, len: size_t, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real(fd, buf, len, how) };
        let kernel = || outcome(real(fd, buf, len, how));
        if how & !CARRIED != 0 {
            retreat::now(fd, at, Cause::Call);
            return finish(kernel());
        }
        // SAFETY: recv's own contract.
        let Some(part) = buffer(buf, len) else { return finish(Err(libc::EFAULT)) };
        finish(ops::receive(fd, at, &mut [part], flags(how), kernel))
    }

    fn readv(real, fd: c_int, iov: *const iovec, count: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real(fd, iov, count) };
        let kernel = || outcome(real(fd, iov, count));
        match parts(iov, usize::try_from(count).unwrap_or(usize::MAX)) {
            Ok(list) => finish(list.with(|list| {
                ops::receive(fd, at, list, Flags::default(), kernel)
            })),
            Err(e) => finish(Err(e)),
        }
    }

    fn recvmsg(real, fd: c_int, msg: *mut msghdr, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real(fd, msg, how) };
        let kernel = || outcome(real(fd, msg, how));
        if how & !CARRIED != 0 {
            retreat::now(fd, at, Cause::Call);
            return finish(kernel());
        }
        if is_bad(msg) {
            return finish(Err(libc::EFAULT));
        }
        let (iov, count) = ((*msg).msg_iov, (*msg).msg_iovlen);
        let list = match parts(iov, count) {
            Ok(list) => list,
            Err(libc::EINVAL) => return finish(Err(libc::EMSGSIZE)),
            Err(e) => return finish(Err(e)),
        };
        let attached = at.conn.phase() == sovia_sockets::conn::Phase::Attached;
        let result = list.with(|list| ops::receive(fd, at, list, flags(how), kernel));
        if result.is_ok() && attached {
            (*msg).msg_namelen = 0;
            (*msg).msg_controllen = 0;
            (*msg).msg_flags = 0;
        }
        finish(result)
    }
}

/// `recv` is what this interface calls by that name.
#[inline(always)]
pub unsafe fn recvfrom(
    real: impl Fn(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> isize,
    recv: impl Fn(c_int, *mut c_void, size_t, c_int) -> isize,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    how: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> isize {
    if table::conn(fd).is_none() {
        return real(fd, buf, len, how, from, from_len);
    }
    // A stream has no sender's address to tell: the kernel leaves `from` and zeroes its length.
    if !from.is_null() {
        if is_bad(from_len) {
            return finish(Err(libc::EFAULT));
        }
        // SAFETY: recvfrom's own contract.
        unsafe { *from_len = 0 };
    }
    recv(fd, buf, len, how)
}

/// `recvmsg` is what this interface calls by that name.
#[inline(always)]
pub unsafe fn recvmmsg(
    real: impl Fn(c_int, *mut mmsghdr, u32, c_int, *mut timespec) -> c_int,
    recvmsg: impl Fn(c_int, *mut msghdr, c_int) -> isize,
    fd: c_int,
    list: *mut mmsghdr,
    count: u32,
    how: c_int,
    timeout: *mut timespec,
) -> c_int {
    if table::conn(fd).is_none() {
        return real(fd, list, count, how, timeout);
    }
    // On a stream each message takes what is there; only the first may wait.
    let wait_for_one = how & libc::MSG_WAITFORONE != 0;
    let mut each = how & !libc::MSG_WAITFORONE;
    let mut done = 0;
    while done < count {
        // SAFETY: recvmmsg's own contract: `list` is valid for `count` entries.
        let entry = unsafe { &mut *list.add(done as usize) };
        let n = recvmsg(fd, &raw mut entry.msg_hdr, each);
        if n < 0 {
            break;
        }
        entry.msg_len = n as u32;
        done += 1;
        if wait_for_one {
            each |= libc::MSG_DONTWAIT;
        }
        if n == 0 {
            break;
        }
    }
    if done > 0 || count == 0 { done as c_int } else { -1 }
}
