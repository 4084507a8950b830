//! read and its relatives.

use crate::{finish, outcome};
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

/// The program's buffer. What the kernel would refuse as a bad address is refused here as far as
/// it shows.
///
/// # Safety
/// `buf` must be valid for `len` bytes, as the hooked function demands.
pub(crate) unsafe fn buffer<'a>(buf: *mut c_void, len: size_t) -> Option<&'a mut [u8]> {
    if len == 0 {
        return Some(&mut []);
    }
    if (buf as usize) < 4096 || len > isize::MAX as usize {
        return None;
    }
    // SAFETY: the caller's contract.
    Some(unsafe { core::slice::from_raw_parts_mut(buf.cast(), len) })
}

/// A list of buffers, as the kernel would take it.
///
/// # Errors
/// `EINVAL` for too many, or lengths that add up to more than a call can return; `EFAULT` for
/// addresses that cannot be.
///
/// # Safety
/// `iov` must be valid for `count` entries, each valid for its length, as the hooked function
/// demands.
pub(crate) unsafe fn parts<'a>(iov: *const iovec, count: usize) -> Result<Parts<'a>, c_int> {
    const IOV_MAX: usize = 1024;
    if count > IOV_MAX {
        return Err(libc::EINVAL);
    }
    if count > 0 && crate::poll::is_bad(iov) {
        return Err(libc::EFAULT);
    }
    let mut all = Parts { few: [const { None }; FEW], many: Vec::new(), count };
    let mut sum = 0usize;
    for i in 0..count {
        // SAFETY: the caller's contract.
        let part = unsafe { &*iov.add(i) };
        sum = sum
            .checked_add(part.iov_len)
            .filter(|&n| n <= isize::MAX as usize)
            .ok_or(libc::EINVAL)?;
        // SAFETY: as above.
        let part = unsafe { buffer(part.iov_base, part.iov_len) }.ok_or(libc::EFAULT)?;
        match all.few.get_mut(i) {
            Some(place) if count <= FEW => *place = Some(part),
            _ => all.many.push(part),
        }
    }
    Ok(all)
}

const FEW: usize = 16;

/// A call's buffers; a few need no allocation.
pub(crate) struct Parts<'a> {
    few: [Option<&'a mut [u8]>; FEW],
    many: Vec<&'a mut [u8]>,
    count: usize,
}

impl<'a> Parts<'a> {
    /// Hands the buffers out as one list.
    pub(crate) fn with<R>(mut self, f: impl FnOnce(&mut [&'a mut [u8]]) -> R) -> R {
        if self.count > FEW {
            return f(&mut self.many);
        }
        let mut list: [&mut [u8]; FEW] = core::array::from_fn(|_| &mut [][..]);
        for (to, from) in list.iter_mut().zip(&mut self.few) {
            if let Some(part) = from.take() {
                *to = part;
            }
        }
        f(&mut list[..self.count])
    }

    /// Hands the buffers out as one list to read from.
    pub(crate) fn with_bytes<R>(self, f: impl FnOnce(&[&[u8]]) -> R) -> R {
        let count = self.count;
        self.with(|list| {
            if count > FEW {
                let list: Vec<&[u8]> = list.iter().map(|part| &**part).collect();
                return f(&list);
            }
            let mut few: [&[u8]; FEW] = [&[]; FEW];
            for (to, from) in few.iter_mut().zip(list.iter()) {
                *to = from;
            }
            f(&few[..count])
        })
    }
}

hooks! {
    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> isize {
        let Some(at) = table::conn(fd) else { return real!()(fd, buf, len) };
        // SAFETY: read's own contract.
        let Some(part) = buffer(buf, len) else { return finish(Err(libc::EFAULT)) };
        let kernel = || outcome(real!()(fd, buf, len));
        finish(ops::receive(fd, at, &mut [part], Flags::default(), kernel))
    }

    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t) -> isize {
        if table::conn(fd).is_none() || len > size {
            return real!()(fd, buf, len, size);
        }
        read(fd, buf, len)
    }

    fn recv(fd: c_int, buf: *mut c_void, len: size_t, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real!()(fd, buf, len, how) };
        let kernel = || outcome(real!()(fd, buf, len, how));
        if how & !CARRIED != 0 {
            retreat::now(fd, at, Cause::Call);
            return finish(ops::receive_plain(at, kernel));
        }
        // SAFETY: recv's own contract.
        let Some(part) = buffer(buf, len) else { return finish(Err(libc::EFAULT)) };
        finish(ops::receive(fd, at, &mut [part], flags(how), kernel))
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
        if table::conn(fd).is_none() {
            return real!()(fd, buf, len, how, from, from_len);
        }
        // A stream has no sender's address to tell: the kernel leaves `from` and zeroes its length.
        if !from.is_null() {
            if crate::poll::is_bad(from_len) {
                return finish(Err(libc::EFAULT));
            }
            *from_len = 0;
        }
        recv(fd, buf, len, how)
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
        let Some(at) = table::conn(fd) else { return real!()(fd, iov, count) };
        let kernel = || outcome(real!()(fd, iov, count));
        match parts(iov, usize::try_from(count).unwrap_or(usize::MAX)) {
            Ok(list) => finish(list.with(|list| {
                ops::receive(fd, at, list, Flags::default(), kernel)
            })),
            Err(e) => finish(Err(e)),
        }
    }

    fn recvmsg(fd: c_int, msg: *mut msghdr, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real!()(fd, msg, how) };
        let kernel = || outcome(real!()(fd, msg, how));
        if how & !CARRIED != 0 {
            retreat::now(fd, at, Cause::Call);
            return finish(ops::receive_plain(at, kernel));
        }
        if crate::poll::is_bad(msg) {
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

    fn recvmmsg(
        fd: c_int, list: *mut mmsghdr, count: u32, how: c_int, timeout: *mut timespec,
    ) -> c_int {
        if table::conn(fd).is_none() {
            return real!()(fd, list, count, how, timeout);
        }
        // On a stream each message takes what is there; only the first may wait.
        let wait_for_one = how & libc::MSG_WAITFORONE != 0;
        let mut each = how & !libc::MSG_WAITFORONE;
        let mut done = 0;
        while done < count {
            let entry = &mut *list.add(done as usize);
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

    fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: i64, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            return real!()(fd, iov, count, offset, how);
        };
        if offset == -1 && how == 0 {
            return readv(fd, iov, count);
        }
        let kernel = || outcome(real!()(fd, iov, count, offset, how));
        if offset != -1 {
            return finish(kernel());
        }
        retreat::now(fd, at, Cause::Call);
        finish(ops::receive_plain(at, kernel))
    }
}
