//! read, recv, readv and other calls that receive.

use crate::boundary::{finish, give, outcome, take, take_if};
use crate::buffers::{IOV_MAX, MOST, buffer, parts};
use core::cell::Cell;
use libc::{c_int, c_void, cmsghdr, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, timespec};
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::ops::{self, Flags};
use sovia_sockets::options::TCP_INQ;
use sovia_sockets::table::{self, Ref};
use sovia_sockets::wait::{self, now_ns};
use sovia_sockets::{Errno, Outcome};
use sovia_sys::UserSliceMut;

/// Flags of a receiving call that the kernel ignores for TCP.
const WITHOUT_EFFECT: c_int = libc::MSG_NOSIGNAL
    | libc::MSG_CTRUNC
    | libc::MSG_DONTROUTE
    | libc::MSG_EOR
    | libc::MSG_MORE
    | libc::MSG_CONFIRM;
/// Flags that calls on a VI support. A call with any other flag first moves the connection to TCP.
const CARRIED: c_int = libc::MSG_DONTWAIT
    | libc::MSG_PEEK
    | libc::MSG_WAITALL
    | libc::MSG_CMSG_CLOEXEC
    | WITHOUT_EFFECT;

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
        let Some(at) = table::conn(fd) else {
            wait::before_kernel_wait();
            return real(fd, buf, len);
        };
        if len == 0 {
            // For a length of 0 the kernel does not look at the socket, so the real call gives the result.
            return real(fd, buf, len);
        }
        // SAFETY: read's contract requires a buffer of `len` bytes, which the program owns.
        let Some(part) = buffer(buf, len) else { return finish(Err(libc::EFAULT)) };
        let kernel = || outcome(real(fd, buf, len));
        finish(ops::receive(fd, at, part, Flags::default(), kernel))
    }

    fn recv(real, fd: c_int, buf: *mut c_void, len: size_t, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            wait::before_kernel_wait();
            return real(fd, buf, len, how);
        };
        let kernel = || outcome(real(fd, buf, len, how));
        if how & (!CARRIED | libc::MSG_PEEK | libc::MSG_WAITALL) == libc::MSG_TRUNC {
            return finish(discard(fd, at, len, how, |len, how| outcome(real(fd, buf, len, how))));
        }
        if how & !CARRIED != 0 {
            fallback::now(fd, at, Cause::Call);
            return finish(kernel());
        }
        // SAFETY: recv's contract requires a buffer of `len` bytes, which the program owns.
        let Some(part) = buffer(buf, len.min(MOST)) else { return finish(Err(libc::EFAULT)) };
        finish(ops::receive(fd, at, part, flags(how), kernel))
    }

    fn readv(real, fd: c_int, iov: *const iovec, count: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            wait::before_kernel_wait();
            return real(fd, iov, count);
        };
        let kernel = || outcome(real(fd, iov, count));
        match parts::<UserSliceMut<'_>>(iov, usize::try_from(count).unwrap_or(usize::MAX)) {
            // For a length of 0 the kernel does not look at the socket, so the real call gives the result.
            Ok(list) => finish(match list.iter().all(|part| part.is_empty()) {
                true => kernel(),
                false => ops::receive_parts(fd, at, &list, Flags::default(), kernel),
            }),
            Err(e) => finish(Err(e)),
        }
    }

    fn recvmsg(real, fd: c_int, msg: *mut msghdr, how: c_int) -> isize {
        let Some(at) = table::conn(fd) else {
            wait::before_kernel_wait();
            return real(fd, msg, how);
        };
        let kernel = || outcome(real(fd, msg, how));
        if how & !CARRIED != 0 {
            fallback::now(fd, at, Cause::Call);
            return finish(kernel());
        }
        let header = match take(msg) {
            Ok(header) => header,
            Err(e) => return finish(Err(e)),
        };
        if header.msg_controllen != 0 && ops::reports_times(at) {
            fallback::now(fd, at, Cause::Call);
            return finish(kernel());
        }
        if !header.msg_name.is_null() && (header.msg_namelen as c_int) < 0 {
            return finish(Err(libc::EINVAL));
        }
        let (iov, count) = (header.msg_iov, header.msg_iovlen);
        let list = match parts(iov, count) {
            Ok(list) => list,
            Err(libc::EINVAL) if count > IOV_MAX => return finish(Err(libc::EMSGSIZE)),
            Err(e) => return finish(Err(e)),
        };
        let is_kernels = Cell::new(false);
        let kernel = || {
            is_kernels.set(true);
            kernel()
        };
        let result = ops::receive_parts(fd, at, &list, flags(how), kernel);
        if let Ok(n) = result
            && !is_kernels.get()
        {
            let (control_len, mut flags) = match ops::left(fd, at) {
                // SAFETY: the program owns the memory for control messages, and only integers are stored there.
                Some(left) => match unsafe { give_left(&header, left) } {
                    Ok(result) => result,
                    Err(error) => return finish(Err(error)),
                },
                None => (0, 0),
            };
            if n > 0 && ops::reports_times(at) {
                // The program has given no buffer for the control message with the time of arrival. Then the kernel
                // sets MSG_CTRUNC.
                flags |= libc::MSG_CTRUNC;
            }
            // Like the kernel, this code also returns the flag MSG_CMSG_CLOEXEC of the call.
            flags |= how & libc::MSG_CMSG_CLOEXEC;
            let named = !header.msg_name.is_null();
            let result = [
                if named { give(&raw mut (*msg).msg_namelen, 0) } else { Ok(()) },
                give(&raw mut (*msg).msg_controllen, control_len),
                give(&raw mut (*msg).msg_flags, flags),
            ];
            if result.iter().any(Result::is_err) {
                return finish(Err(libc::EFAULT));
            }
        }
        finish(result)
    }
}

/// Receives up to `len` bytes and drops these bytes, as TCP does for MSG_TRUNC (tcp(7)). `kernel` makes the
/// program's call with another length and other flags.
#[cold]
#[inline(never)]
fn discard(
    fd: c_int,
    at: Ref,
    len: size_t,
    mut how: c_int,
    kernel: impl Fn(size_t, c_int) -> Outcome,
) -> Outcome {
    const PIECE: usize = 16 << 10;
    let mut piece = [0; PIECE];
    let mut done = 0;
    loop {
        let part = &mut piece[..(len - done).min(PIECE)];
        let wanted = part.len();
        let is_kernels = Cell::new(false);
        let result = ops::receive(fd, at, part.into(), flags(how), || {
            is_kernels.set(true);
            kernel(len - done, how)
        });
        match result {
            Ok(n) if is_kernels.get() || n < wanted || done + n == len => return Ok(done + n),
            Ok(n) => done += n,
            Err(error) if done > 0 => {
                ops::keep_error(at, error);
                return Ok(done);
            }
            Err(error) => return Err(error),
        }
        how |= libc::MSG_DONTWAIT;
    }
}

/// Stores a control message with the number of unread bytes (`left`, TCP_INQ). Cuts the control message to the room
/// in the program's buffer, as the kernel does. Returns the values for `msg_controllen` and `msg_flags`.
///
/// # Safety
/// The program must own the header's memory for control messages, which may be unmapped.
#[cold]
unsafe fn give_left(header: &msghdr, left: c_int) -> Result<(size_t, c_int), Errno> {
    const ROOM: usize = size_of::<cmsghdr>() + size_of::<u64>();
    const LEN: usize = size_of::<cmsghdr>() + size_of::<c_int>();
    let room = if header.msg_control.is_null() { 0 } else { header.msg_controllen };
    if room < size_of::<cmsghdr>() {
        return Ok((0, libc::MSG_CTRUNC));
    }
    let message = header.msg_control.cast::<u8>();
    // SAFETY: the caller guarantees that the program owns the memory. Only integers are stored there, in the first
    // `room` bytes.
    unsafe {
        give(message.cast(), room.min(LEN))?;
        give(message.add(size_of::<size_t>()).cast(), [libc::IPPROTO_TCP, TCP_INQ])?;
        for (i, &byte) in
            left.to_ne_bytes()[..room.min(LEN) - size_of::<cmsghdr>()].iter().enumerate()
        {
            give(message.add(size_of::<cmsghdr>() + i), byte)?;
        }
    }
    Ok((room.min(ROOM), if room < LEN { libc::MSG_CTRUNC } else { 0 }))
}

/// Implements recvfrom. `recv` calls this library's hook of recv.
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
        wait::before_kernel_wait();
        return real(fd, buf, len, how, from, from_len);
    }
    let n = recv(fd, buf, len, how);
    // A stream reports no address of a sender. Like the kernel, this code sets `from_len` to 0, and leaves `from`
    // unchanged.
    if n >= 0 && !from.is_null() {
        // SAFETY: the program owns the memory, and every bit pattern is a valid length.
        let result = match unsafe { take(from_len) } {
            Ok(len) if (len as c_int) < 0 => Err(libc::EINVAL),
            // SAFETY: the program owns the memory, and a length has no padding.
            Ok(_) => unsafe { give(from_len, 0) },
            Err(e) => Err(e),
        };
        if let Err(e) = result {
            return finish(Err(e));
        }
    }
    n
}

/// Implements recvmmsg. `recvmsg` calls this library's hook of recvmsg.
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
    let Some(at) = table::conn(fd) else { return real(fd, list, count, how, timeout) };
    // SAFETY: the program owns the memory, and every bit pattern is a valid `timespec`.
    let deadline = match unsafe { take_if(timeout) } {
        Ok(None) => None,
        Ok(Some(time)) => match nanoseconds(&time) {
            Some(ns) => Some(now_ns().saturating_add(ns)),
            None => return finish(Err(libc::EINVAL)) as c_int,
        },
        Err(e) => return finish(Err(e)) as c_int,
    };
    // Like the kernel, this code reports a pending error before it receives unread bytes.
    if how & libc::MSG_ERRQUEUE == 0
        && let Some(error) = ops::pending_error(fd, at)
    {
        return finish(Err(error)) as c_int;
    }
    // On a stream each message gets the bytes that have arrived. With MSG_WAITFORONE the call waits only for the
    // first message.
    let wait_for_one = how & libc::MSG_WAITFORONE != 0;
    let mut each = how & !libc::MSG_WAITFORONE;
    let mut done = 0;
    while done < count {
        let entry = list.wrapping_add(done as usize);
        // SAFETY: the block only computes addresses of the entry's fields, and `list` is valid for `count` entries.
        let (header, len) = unsafe { (&raw mut (*entry).msg_hdr, &raw mut (*entry).msg_len) };
        let n = recvmsg(fd, header, each);
        if n < 0 {
            if done > 0 {
                ops::keep_error(at, crate::errno());
            }
            break;
        }
        // SAFETY: the program owns the entry, and an integer has no padding.
        if let Err(e) = unsafe { give(len, n as u32) } {
            crate::set_errno(e);
            break;
        }
        done += 1;
        if wait_for_one {
            each |= libc::MSG_DONTWAIT;
        }
        // Like the kernel, this loop checks the deadline only between messages.
        if let Some(deadline) = deadline {
            let left = deadline.saturating_sub(now_ns());
            let time = timespec {
                tv_sec: (left / 1_000_000_000) as _,
                tv_nsec: (left % 1_000_000_000) as _,
            };
            // SAFETY: the program owns the memory, and a `timespec` has no padding.
            if unsafe { give(timeout, time) }.is_err() || left == 0 {
                break;
            }
        }
    }
    if done > 0 || count == 0 { done as c_int } else { -1 }
}

/// Converts a time-out to nanoseconds. Returns `None` if the time-out is out of range.
fn nanoseconds(time: &timespec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let rest = u64::try_from(time.tv_nsec).ok().filter(|&ns| ns < 1_000_000_000)?;
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
}

#[cfg(test)]
mod tests;
