//! Modes and options of a descriptor.

use crate::conn::{Phase, flag};
use crate::table::{self, Ref};
use crate::{Errno, Outcome, keepalive, kernel_sockets, options, rest, stream};
use core::sync::atomic::Ordering;
use sovia_sys::{call, clock};

/// Records that the program has switched non-blocking mode.
pub fn nonblocking(at: Ref, on: bool) {
    if on {
        at.conn.set(flag::NONBLOCK);
    } else {
        at.conn.clear(flag::NONBLOCK);
    }
}

/// `FIONREAD`. `kernel` makes the real call.
pub fn fionread(fd: i32, at: Ref, kernel: impl FnOnce() -> Outcome) -> Outcome {
    if at.conn.rest.find().is_some() {
        return Ok(rest::unread(at.conn));
    }
    if at.conn.phase() != Phase::Attached {
        return kernel();
    }
    // A program may make no other call until bytes have arrived, so the progress thread must run.
    kernel_sockets::ensure_for_a_look();
    match at.attached() {
        Some(mut guard) => stream::receivable(&mut guard, table::current(fd, at)),
        None => kernel(),
    }
}

/// Returns the value that `recvmsg` reports beside the bytes, if the program has set TCP_INQ. The value is the number
/// of bytes left, plus one once the peer's end has come.
///
/// A peer's end that an epoll set has reported counts here. Its edge does not come again for a program that reads until
/// the value is 0.
pub fn left(fd: i32, at: Ref) -> Option<i32> {
    const MAY_HAVE_ENDED: u32 = flag::KERNEL_SOCKET | flag::ENDED | flag::DEAD;
    let conn = at.conn;
    if !conn.has(flag::TELLS_LEFT) {
        return None;
    }
    let mut guard = at.attached()?;
    let fd = table::current(fd, at);
    let left = stream::receivable(&mut guard, fd).ok()?;
    // The program's own shutdown does not count as the peer's end.
    let has_ended = stream::is_ending(&mut guard)
        || stream::ending::shows_end(&mut guard, fd)
        || conn.has(MAY_HAVE_ENDED)
            && !conn.has(flag::SHUT_RD)
            && stream::ending::events(&mut guard, fd) & libc::POLLRDHUP != 0;
    Some(left.saturating_add(usize::from(has_ended)).min(i32::MAX as usize) as i32)
}

/// Returns true if `recvmsg` with room for control messages reports arrival times. Only the kernel knows these times.
pub fn tells_times(at: Ref) -> bool {
    at.conn.tells_times.load(Ordering::Relaxed) != 0
}

/// Returns how long the connection has sent nothing over its VI, and received nothing, in milliseconds at most. `None`
/// if it never has: then the kernel knows the time (TCP_INFO).
pub fn silence(at: Ref) -> [Option<u32>; 2] {
    let Some(mut guard) = at.attached() else { return [None; 2] };
    let now = clock::now_ns();
    let (traffic, past) = (guard.traffic, guard.past);
    let sent = traffic.bytes_sent.wrapping_add(past.bytes_sent);
    let received = traffic.bytes_received.wrapping_add(past.bytes_received);
    let [sending, receiving] = &mut guard.activity;
    [sending.silence(sent, now), receiving.silence(received, now)]
        .map(|silence| silence.map(|ns| u32::try_from(ns / 1_000_000).unwrap_or(u32::MAX)))
}

/// Returns the part of `SO_ERROR` that the kernel does not know.
pub fn socket_error(fd: i32, at: Ref) -> Option<Errno> {
    if at.conn.phase() != Phase::Attached {
        return at.conn.take_error();
    }
    let mut guard = at.attached()?;
    stream::ending::socket_error(&mut guard, table::current(fd, at))
}

/// Takes and returns the pending error, from the connection or from the kernel.
pub fn pending_error(fd: i32, at: Ref) -> Option<Errno> {
    const ENDS: u32 = flag::ENDED | flag::DEAD | flag::ERROR;
    if at.conn.phase() == Phase::Attached && !at.conn.has(ENDS) {
        return None;
    }
    socket_error(fd, at).or_else(|| {
        let error = call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
        (error != 0).then_some(error)
    })
}

/// Keeps an error for the next call to return, like the kernel's recvmmsg.
pub fn keep_error(at: Ref, error: Errno) {
    if error != libc::EAGAIN && at.conn.phase() == Phase::Attached {
        at.conn.keep_error(error);
    }
}

/// Makes the program's call that reads or sets a socket option, while the option has the program's own value.
pub fn on_own_options<T>(fd: i32, at: Ref, level: i32, name: i32, kernel: impl FnOnce() -> T) -> T {
    keepalive::steady(fd, at, (level, name), kernel)
}

/// Reads again the options that Sovia has stored, after the program has set a socket option.
pub fn note_option(fd: i32, at: Ref, level: i32, name: i32) {
    if !options::leaves_fresh(level, name) {
        at.conn.approach.fresh.store(0, Ordering::Release);
    }
    // A thread that attaches the connection may have read the old value under the lock. Wait for such a thread.
    drop(at.conn.lock());
    if at.conn.phase() != Phase::Attached {
        return;
    }
    if level == libc::IPPROTO_TCP
        && matches!(name, libc::TCP_NODELAY | libc::TCP_CORK)
        && let Some(mut guard) = at.attached()
    {
        stream::combine::switch(&mut guard, table::current(fd, at));
    }
    if (level, name) == (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT)
        && let Some(guard) = at.attached()
    {
        let timeout = options::note_user_timeout(fd, at.conn);
        stream::reflected::say_user_timeout(&guard, timeout);
    }
    if (level, name) == (libc::IPPROTO_TCP, options::TCP_INQ) {
        options::note_inq(fd, at.conn);
    }
    if options::bounds(level, name) {
        options::note_bounds(fd, at.conn);
        if let Some(mut guard) = at.attached() {
            stream::rebound(&mut guard);
        }
    }
    if options::tells_times(level, name) {
        options::note_times(fd, at.conn);
    }
    if level != libc::SOL_SOCKET {
        return;
    }
    let to = match name {
        libc::SO_RCVTIMEO => &at.conn.receive_timeout,
        libc::SO_SNDTIMEO => &at.conn.send_timeout,
        _ => return,
    };
    to.store(call::timeout_ns(fd, name).unwrap_or(0), Ordering::Relaxed);
}
