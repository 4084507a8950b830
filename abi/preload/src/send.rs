//! write and its relatives.

use crate::{finish, outcome, receive};
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

/// # Safety
/// As for [`receive::buffer`].
unsafe fn bytes<'a>(buf: *const c_void, len: size_t) -> Option<&'a [u8]> {
    // SAFETY: the caller's contract; only read from.
    unsafe { receive::buffer(buf.cast_mut(), len) }.map(|part| &*part)
}

hooks! {
    fn write(fd: c_int, buf: *const c_void, len: size_t) -> isize {
        let Some(at) = table::conn(fd) else { return real!()(fd, buf, len) };
        // SAFETY: write's own contract.
        let Some(part) = bytes(buf, len) else { return finish(Err(libc::EFAULT)) };
        let kernel = || outcome(real!()(fd, buf, len));
        finish(ops::send(fd, at, &[part], Flags::default(), kernel))
    }

    fn send(fd: c_int, buf: *const c_void, len: size_t, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real!()(fd, buf, len, how) };
        let kernel = || outcome(real!()(fd, buf, len, how));
        if how & libc::MSG_OOB != 0 {
            retreat::with_peer(fd, at, Cause::Call);
        }
        if how & !CARRIED != 0 {
            retreat::now(fd, at, Cause::Call);
            return finish(ops::send_plain(at, kernel));
        }
        // SAFETY: send's own contract.
        let Some(part) = bytes(buf, len) else { return finish(Err(libc::EFAULT)) };
        finish(ops::send(fd, at, &[part], flags(how), kernel))
    }

    fn sendto(
        fd: c_int, buf: *const c_void, len: size_t, how: c_int,
        to: *const sockaddr, to_len: socklen_t,
    ) -> isize {
        if table::conn(fd).is_none() {
            return real!()(fd, buf, len, how, to, to_len);
        }
        if how & libc::MSG_FASTOPEN != 0 {
            if let Some(at) = table::conn(fd) {
                retreat::now(fd, at, Cause::Call);
            }
            return real!()(fd, buf, len, how, to, to_len);
        }
        // A connected stream's address is ignored, as the kernel does.
        send(fd, buf, len, how)
    }

    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real!()(fd, iov, count) };
        let kernel = || outcome(real!()(fd, iov, count));
        match receive::parts(iov, usize::try_from(count).unwrap_or(usize::MAX)) {
            Ok(list) => finish(list.with_bytes(|list| {
                ops::send(fd, at, list, Flags::default(), kernel)
            })),
            Err(e) => finish(Err(e)),
        }
    }

    fn sendmsg(fd: c_int, msg: *const msghdr, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            // A descriptor that travels must be one that its receiver can use.
            // SAFETY: sendmsg's own contract.
            crate::process::passing(msg);
            return real!()(fd, msg, how);
        };
        let kernel = || outcome(real!()(fd, msg, how));
        if crate::poll::is_bad(msg) {
            return finish(Err(libc::EFAULT));
        }
        if how & libc::MSG_OOB != 0 {
            retreat::with_peer(fd, at, Cause::Call);
        }
        if how & !CARRIED != 0 || (*msg).msg_controllen != 0 {
            retreat::now(fd, at, Cause::Call);
            return finish(ops::send_plain(at, kernel));
        }
        let (iov, count) = ((*msg).msg_iov, (*msg).msg_iovlen);
        match receive::parts(iov, count) {
            Ok(list) => {
                finish(list.with_bytes(|list| ops::send(fd, at, list, flags(how), kernel)))
            }
            Err(libc::EINVAL) => finish(Err(libc::EMSGSIZE)),
            Err(e) => finish(Err(e)),
        }
    }

    fn sendmmsg(fd: c_int, list: *mut mmsghdr, count: u32, how: c_int) -> c_int {
        if table::conn(fd).is_none() {
            return real!()(fd, list, count, how);
        }
        let mut done = 0;
        while done < count {
            let entry = &mut *list.add(done as usize);
            let n = sendmsg(fd, &raw const entry.msg_hdr, how);
            if n < 0 {
                break;
            }
            entry.msg_len = n as u32;
            done += 1;
        }
        if done > 0 || count == 0 { done as c_int } else { -1 }
    }

    fn pwritev2(fd: c_int, iov: *const iovec, count: c_int, offset: i64, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            return real!()(fd, iov, count, offset, how);
        };
        if offset == -1 && how == 0 {
            return writev(fd, iov, count);
        }
        let kernel = || outcome(real!()(fd, iov, count, offset, how));
        if offset != -1 {
            return finish(kernel());
        }
        retreat::now(fd, at, Cause::Call);
        finish(ops::send_plain(at, kernel))
    }

    fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> isize {
        let Some(at) = table::conn(out) else { return real!()(out, from, offset, count) };
        if !offset.is_null() && crate::poll::is_bad(offset) {
            return finish(Err(libc::EFAULT));
        }
        let kernel = || outcome(real!()(out, from, offset, count));
        let place = offset.as_mut();
        finish(ops::send_file(out, at, from, place, count, kernel))
    }

    fn sendfile64(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> isize {
        sendfile(out, from, offset, count)
    }

    fn splice(
        from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, how: u32,
    ) -> isize {
        for fd in [from, to] {
            if let Some(at) = table::conn(fd) {
                retreat::now(fd, at, Cause::Call);
            }
        }
        let kernel = || outcome(real!()(from, from_offset, to, to_offset, len, how));
        finish(match (table::conn(from), table::conn(to)) {
            (Some(at), _) => ops::receive_plain(at, kernel),
            (_, Some(at)) => ops::send_plain(at, kernel),
            _ => kernel(),
        })
    }
}
