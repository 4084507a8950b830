//! write and its relatives.

use crate::boundary::{finish, is_bad, outcome};
use crate::buffers::{bytes, parts};
use libc::{c_int, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t};
use sovia_sockets::ops::{self, Flags};
use sovia_sockets::retreat::{self, Cause};
use sovia_sockets::table;

/// Flags that are carried on a VI; a call with any other goes back to TCP first.
const CARRIED: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR;

fn flags(flags: c_int) -> Flags {
    Flags {
        dont_wait: flags & libc::MSG_DONTWAIT != 0,
        no_signal: flags & libc::MSG_NOSIGNAL != 0,
        ..Flags::default()
    }
}

calls! {
    fn write(real, fd: c_int, buf: *const c_void, len: size_t) -> isize {
        let Some(at) = table::conn(fd) else { return real(fd, buf, len) };
        // SAFETY: write's own contract.
        let Some(part) = bytes(buf, len) else { return finish(Err(libc::EFAULT)) };
        let kernel = || outcome(real(fd, buf, len));
        finish(ops::send(fd, at, &[part], Flags::default(), kernel))
    }

    fn send(real, fd: c_int, buf: *const c_void, len: size_t, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real(fd, buf, len, how) };
        let kernel = || outcome(real(fd, buf, len, how));
        if how & libc::MSG_OOB != 0 {
            retreat::with_peer(fd, at, Cause::Call);
        }
        if how & !CARRIED != 0 {
            retreat::now(fd, at, Cause::Call);
            return finish(kernel());
        }
        // SAFETY: send's own contract.
        let Some(part) = bytes(buf, len) else { return finish(Err(libc::EFAULT)) };
        finish(ops::send(fd, at, &[part], flags(how), kernel))
    }

    fn writev(real, fd: c_int, iov: *const iovec, count: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real(fd, iov, count) };
        let kernel = || outcome(real(fd, iov, count));
        match parts(iov, usize::try_from(count).unwrap_or(usize::MAX)) {
            Ok(list) => finish(list.with_bytes(|list| {
                ops::send(fd, at, list, Flags::default(), kernel)
            })),
            Err(e) => finish(Err(e)),
        }
    }

    fn sendmsg(real, fd: c_int, msg: *const msghdr, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            // A descriptor that travels must be one that its receiver can use.
            // SAFETY: sendmsg's own contract.
            passing(msg);
            return real(fd, msg, how);
        };
        let kernel = || outcome(real(fd, msg, how));
        if is_bad(msg) {
            return finish(Err(libc::EFAULT));
        }
        if how & libc::MSG_OOB != 0 {
            retreat::with_peer(fd, at, Cause::Call);
        }
        if how & !CARRIED != 0 || (*msg).msg_controllen != 0 {
            retreat::now(fd, at, Cause::Call);
            return finish(kernel());
        }
        let (iov, count) = ((*msg).msg_iov, (*msg).msg_iovlen);
        match parts(iov, count) {
            Ok(list) => {
                finish(list.with_bytes(|list| ops::send(fd, at, list, flags(how), kernel)))
            }
            Err(libc::EINVAL) => finish(Err(libc::EMSGSIZE)),
            Err(e) => finish(Err(e)),
        }
    }

    fn sendfile(real, out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> isize {
        let Some(at) = table::conn(out) else { return real(out, from, offset, count) };
        if !offset.is_null() && is_bad(offset) {
            return finish(Err(libc::EFAULT));
        }
        let kernel = || outcome(real(out, from, offset, count));
        let place = offset.as_mut();
        finish(ops::send_file(out, at, from, place, count, kernel))
    }
}

/// `send` is what this interface calls by that name.
#[inline(always)]
pub unsafe fn sendto(
    real: impl Fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> isize,
    send: impl Fn(c_int, *const c_void, size_t, c_int) -> isize,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    how: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> isize {
    let Some(at) = table::conn(fd) else { return real(fd, buf, len, how, to, to_len) };
    if how & libc::MSG_FASTOPEN != 0 {
        retreat::now(fd, at, Cause::Call);
        return real(fd, buf, len, how, to, to_len);
    }
    // A connected stream's address is ignored, as the kernel does.
    send(fd, buf, len, how)
}

/// `sendmsg` is what this interface calls by that name.
#[inline(always)]
pub unsafe fn sendmmsg(
    real: impl Fn(c_int, *mut mmsghdr, u32, c_int) -> c_int,
    sendmsg: impl Fn(c_int, *const msghdr, c_int) -> isize,
    fd: c_int,
    list: *mut mmsghdr,
    count: u32,
    how: c_int,
) -> c_int {
    if table::conn(fd).is_none() {
        return real(fd, list, count, how);
    }
    let mut done = 0;
    while done < count {
        // SAFETY: sendmmsg's own contract: `list` is valid for `count` entries.
        let entry = unsafe { &mut *list.add(done as usize) };
        let n = sendmsg(fd, &raw const entry.msg_hdr, how);
        if n < 0 {
            break;
        }
        entry.msg_len = n as u32;
        done += 1;
    }
    if done > 0 || count == 0 { done as c_int } else { -1 }
}

calls! {
    fn splice(real,
        from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, how: u32,
    ) -> isize {
        for fd in [from, to] {
            if let Some(at) = table::conn(fd) {
                retreat::now(fd, at, Cause::Call);
            }
        }
        let kernel = || outcome(real(from, from_offset, to, to_offset, len, how));
        finish(kernel())
    }
}

/// A message is about to be sent that may carry descriptors.
///
/// # Safety
/// `msg` must be null or a valid message header.
unsafe fn passing(msg: *const msghdr) {
    // SAFETY: the caller's contract; the control messages are walked as sendmsg itself would.
    unsafe {
        let Some(msg) = msg.as_ref() else { return };
        if msg.msg_control.is_null() || msg.msg_controllen == 0 {
            return;
        }
        let mut header = libc::CMSG_FIRSTHDR(msg);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header).cast::<c_int>();
                let bytes =
                    ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                for i in 0..bytes / size_of::<c_int>() {
                    let fd = data.add(i).read_unaligned();
                    if let Some(at) = table::conn(fd) {
                        retreat::now(fd, at, Cause::Passed);
                    }
                }
            }
            header = libc::CMSG_NXTHDR(msg, header);
        }
    }
}
