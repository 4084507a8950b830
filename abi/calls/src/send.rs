//! write, send, writev and other calls that send.

use crate::boundary::{finish, give, may_look, outcome, take, take_if};
use crate::buffers::{IOV_MAX, MOST, bytes, check_address, parts};
use libc::{c_int, c_void, cmsghdr, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t};
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::ops::{self, Flags};
use sovia_sockets::{epoll, table};
use sovia_sys::UserSlice;

/// Flags that the kernel ignores when a TCP connection sends.
const WITHOUT_EFFECT: c_int = libc::MSG_WAITALL | libc::MSG_CONFIRM | libc::MSG_DONTROUTE;
/// Flags that calls on a VI support. A call with any other flag first moves the connection to TCP.
const CARRIED: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR | WITHOUT_EFFECT;

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
        // SAFETY: write's contract requires a buffer of `len` bytes, which the program owns.
        let Some(part) = bytes(buf, len) else { return finish(Err(libc::EFAULT)) };
        let kernel = || outcome(real(fd, buf, len));
        finish(ops::send(fd, at, part, Flags::default(), kernel))
    }

    fn send(real, fd: c_int, buf: *const c_void, len: size_t, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real(fd, buf, len, how) };
        let kernel = || outcome(real(fd, buf, len, how));
        if how & libc::MSG_OOB != 0 {
            fallback::with_peer(fd, at, Cause::Call);
        }
        if how & !CARRIED != 0 {
            fallback::now(fd, at, Cause::Call);
            return finish(kernel());
        }
        // SAFETY: send's contract requires a buffer of `len` bytes, which the program owns.
        let Some(part) = bytes(buf, len.min(MOST)) else { return finish(Err(libc::EFAULT)) };
        finish(ops::send(fd, at, part, flags(how), kernel))
    }

    fn writev(real, fd: c_int, iov: *const iovec, count: c_int) -> isize {
        let Some(at) = table::conn(fd) else { return real(fd, iov, count) };
        let kernel = || outcome(real(fd, iov, count));
        match parts::<UserSlice<'_>>(iov, usize::try_from(count).unwrap_or(usize::MAX)) {
            // For a length of 0 the kernel does not look at the socket, so the real call gives the result.
            Ok(list) => finish(match list.iter().all(|part| part.is_empty()) {
                true => kernel(),
                false => ops::send_parts(fd, at, &list, Flags::default(), kernel),
            }),
            Err(e) => finish(Err(e)),
        }
    }

    fn sendmsg(real, fd: c_int, msg: *const msghdr, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            // The message may carry descriptors of connections. The receiving process must be able to use these
            // connections.
            if may_look() {
                passing(fd, msg);
            }
            return real(fd, msg, how);
        };
        let kernel = || outcome(real(fd, msg, how));
        let header = match take(msg) {
            Ok(header) => header,
            Err(e) => return finish(Err(e)),
        };
        if how & libc::MSG_OOB != 0 {
            fallback::with_peer(fd, at, Cause::Call);
        }
        if how & !CARRIED != 0 || !is_ignored(&header) {
            fallback::now(fd, at, Cause::Call);
            return finish(kernel());
        }
        // Like the kernel, this code cuts an address that is too long.
        let len = (header.msg_namelen as c_int).min(size_of::<libc::sockaddr_storage>() as c_int);
        if let Err(e) = check_address(header.msg_name, len) {
            return finish(Err(e));
        }
        let (iov, count) = (header.msg_iov, header.msg_iovlen);
        match parts(iov, count) {
            Ok(list) => finish(ops::send_parts(fd, at, &list, flags(how), kernel)),
            Err(libc::EINVAL) if count > IOV_MAX => finish(Err(libc::EMSGSIZE)),
            Err(e) => finish(Err(e)),
        }
    }

    fn sendfile(real, out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> isize {
        let Some(at) = table::conn(out) else { return real(out, from, offset, count) };
        let kernel = || outcome(real(out, from, offset, count));
        let mut place = match take_if(offset) {
            Ok(place) => place,
            Err(e) => return finish(Err(e)),
        };
        let before = place;
        let result = ops::send_file(out, at, from, place.as_mut(), count, kernel);
        // If `place` has not changed, the kernel has made the call, and has updated the program's offset.
        if let (true, Some(now)) = (place != before, place)
            && let Err(e) = give(offset, now)
        {
            return finish(Err(e));
        }
        finish(result)
    }
}

/// Implements sendto. `send` calls this library's hook of send.
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
        fallback::now(fd, at, Cause::Call);
        return real(fd, buf, len, how, to, to_len);
    }
    // The kernel reads the address of a connected stream, and then ignores it.
    // SAFETY: sendto's contract requires an address of `to_len` bytes, which the program owns.
    if let Err(e) = unsafe { check_address(to.cast(), to_len as c_int) } {
        return finish(Err(e));
    }
    send(fd, buf, len, how)
}

/// Implements sendmmsg. `sendmsg` calls this library's hook of sendmsg.
#[inline(always)]
pub unsafe fn sendmmsg(
    real: impl Fn(c_int, *mut mmsghdr, u32, c_int) -> c_int,
    sendmsg: impl Fn(c_int, *const msghdr, c_int) -> isize,
    fd: c_int,
    list: *mut mmsghdr,
    count: u32,
    how: c_int,
) -> c_int {
    const UIO_MAXIOV: u32 = 1024;
    let count = count.min(UIO_MAXIOV);
    if table::conn(fd).is_none() {
        if may_look() {
            let messages = (0..count as usize).map(|i| list.wrapping_add(i));
            // SAFETY: the block only computes the address of the entry's message.
            messages.for_each(|entry| passing(fd, unsafe { &raw const (*entry).msg_hdr }));
        }
        return real(fd, list, count, how);
    }
    let mut done = 0;
    while done < count {
        let entry = list.wrapping_add(done as usize);
        // SAFETY: the block only computes addresses of the entry's fields, and `list` is valid for `count` entries.
        let (header, len) = unsafe { (&raw const (*entry).msg_hdr, &raw mut (*entry).msg_len) };
        let n = sendmsg(fd, header, how);
        if n < 0 {
            break;
        }
        // SAFETY: the program owns the entry, and an integer has no padding.
        if let Err(e) = unsafe { give(len, n as u32) } {
            crate::set_errno(e);
            break;
        }
        done += 1;
    }
    if done > 0 || count == 0 { done as c_int } else { -1 }
}

calls! {
    fn splice(real,
        from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, how: u32,
    ) -> isize {
        if let Some(at) = table::conn(from) {
            fallback::now(from, at, Cause::Call);
        }
        let kernel = || outcome(real(from, from_offset, to, to_offset, len, how));
        finish(match table::conn(to) {
            Some(at) => ops::splice_to(to, at, len, kernel),
            None => kernel(),
        })
    }
}

/// Prepares connections and epoll instances whose descriptors the message `msg` carries to another process.
/// `channel` is the socket that sends the message. Stops at memory that cannot be read, because the kernel will
/// refuse the message.
fn passing(channel: c_int, msg: *const msghdr) {
    // SAFETY: every bit pattern is a valid message header, and the program owns the memory.
    let Ok(message) = (unsafe { take(msg) }) else { return };
    each_control(&message, |header, data| {
        if (header.cmsg_level, header.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            return;
        }
        table::note_shared();
        for i in 0..(header.cmsg_len - HEADER) / size_of::<c_int>() {
            // SAFETY: every bit pattern is a valid integer, and the program owns the memory.
            let Ok(fd) = (unsafe { take(data.cast::<c_int>().wrapping_add(i)) }) else { return };
            if let Some(at) = table::conn(fd) {
                fallback::before_passing(channel, fd, at);
            } else if let table::Entry::Epoll(index) = table::get(fd) {
                // After the message, the receiving process may wait on this epoll instance in the kernel.
                epoll::polled(index);
            }
        }
    });
}

/// Size of a control message's header, in bytes.
const HEADER: usize = size_of::<cmsghdr>();

/// Maximum total size of control messages that Sovia checks, in bytes. A send with longer control messages moves
/// the connection to TCP, and the kernel checks these messages.
const CONTROL_MOST: usize = 1024;

/// Returns true if TCP ignores all control messages of `message` (`sock_cmsg_send` of Linux). TCP ignores control
/// messages that belong to other protocols, and those that only other kinds of sockets use.
fn is_ignored(message: &msghdr) -> bool {
    let mut is_ignored = message.msg_controllen <= CONTROL_MOST;
    let is_whole = each_control(message, |header, _| {
        is_ignored &= header.cmsg_level != libc::SOL_SOCKET
            || matches!(header.cmsg_type, libc::SCM_RIGHTS | libc::SCM_CREDENTIALS);
    });
    is_ignored && is_whole
}

/// Calls `each` for every control message of `message`, with the header and the address of the data. Returns false
/// if a control message is incomplete or cannot be read.
fn each_control(message: &msghdr, mut each: impl FnMut(&cmsghdr, *const c_void)) -> bool {
    let (mut at, mut left) = (message.msg_control.cast_const(), message.msg_controllen);
    // A control message is a header, data, and padding up to the next header.
    while left >= HEADER {
        // SAFETY: every bit pattern is a valid header, and the program owns the memory.
        let Ok(header) = (unsafe { take(at.cast::<cmsghdr>()) }) else { return false };
        if !(HEADER..=left).contains(&header.cmsg_len) {
            return false;
        }
        // SAFETY: every bit pattern is a valid byte, and the program owns the memory.
        if unsafe { take(at.cast::<u8>().wrapping_add(header.cmsg_len - 1)) }.is_err() {
            return false;
        }
        each(&header, at.wrapping_byte_add(HEADER));
        let step = header.cmsg_len.next_multiple_of(size_of::<usize>()).min(left);
        (at, left) = (at.wrapping_byte_add(step), left - step);
    }
    left == 0
}

#[cfg(test)]
mod tests;
