//! Modes and options of a descriptor.

use crate::conn::{Phase, flag};
use crate::table::{self, Ref};
use crate::{Errno, Outcome, keepalive, kernel_sockets, options, stream};
use core::sync::atomic::Ordering;
use sovia_sys::{call, clock};

/// Records that the program has switched non-blocking mode on or off.
pub fn nonblocking(at: Ref, on: bool) {
    if on {
        at.conn.set(flag::NONBLOCK);
    } else {
        at.conn.clear(flag::NONBLOCK);
    }
}

/// Does `FIONREAD`. `kernel` makes the program's own call.
pub fn fionread(fd: i32, at: Ref, kernel: impl FnOnce() -> Outcome) -> Outcome {
    if at.conn.phase() != Phase::Attached {
        return kernel();
    }
    // Start the progress thread if it is missing. The program may make no other call until bytes have arrived.
    kernel_sockets::ensure_for_a_look();
    match at.attached() {
        Some(mut guard) => stream::receivable(&mut guard, table::current(fd, at)),
        None => kernel(),
    }
}

/// Returns the value that `recvmsg` reports besides the bytes, if the program has set TCP_INQ. The value is the
/// number of bytes left unread, plus one once the peer's end of stream has come.
///
/// The end of stream already counts once an epoll set has reported it. For a program that reads until the value is
/// 0, an edge for the end of stream does not come again.
pub fn left(fd: i32, at: Ref) -> Option<i32> {
    const MAY_HAVE_ENDED: u32 = flag::KERNEL_SOCKET | flag::ENDED | flag::DEAD;
    let conn = at.conn;
    if !conn.has(flag::REPORTS_UNREAD) {
        return None;
    }
    let mut guard = at.attached()?;
    let fd = table::current(fd, at);
    let left = stream::receivable(&mut guard, fd).ok()?;
    // Ignore a shutdown by the program itself, which is not the peer's end of stream.
    let has_ended = stream::is_ending(&mut guard)
        || stream::ending::shows_end(&mut guard, fd)
        || conn.has(MAY_HAVE_ENDED)
            && !conn.has(flag::SHUT_RD)
            && stream::ending::events(&mut guard, fd) & libc::POLLRDHUP != 0;
    Some(left.saturating_add(usize::from(has_ended)).min(i32::MAX as usize) as i32)
}

/// Returns true if `recvmsg` must report arrival times when the program gives room for control messages. Only the
/// kernel knows arrival times.
pub fn reports_times(at: Ref) -> bool {
    at.conn.reports_times.load(Ordering::Relaxed) != 0
}

/// Returns the times in milliseconds since the connection last sent and last received bytes over its VI. The real times
/// may be longer ([`crate::conn::Activity`]). `None` if no bytes have used the VI: then TCP_INFO gives the time.
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

/// Takes and returns an error for `SO_ERROR` that the kernel socket does not have.
pub fn socket_error(fd: i32, at: Ref) -> Option<Errno> {
    if at.conn.phase() != Phase::Attached {
        return at.conn.take_error();
    }
    kernel_sockets::ensure_for_a_look();
    let mut guard = at.attached()?;
    stream::ending::socket_error(&mut guard, table::current(fd, at))
}

/// Takes and returns the pending error of the connection or of the kernel socket.
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

/// Stores `error` for the next call to return, like the kernel's recvmmsg.
pub fn keep_error(at: Ref, error: Errno) {
    if error != libc::EAGAIN && at.conn.phase() == Phase::Attached {
        at.conn.keep_error(error);
    }
}

/// Makes the program's call that reads or sets a socket option. Keep-alive options have the program's own values
/// during this call.
pub fn on_own_options<T>(fd: i32, at: Ref, level: i32, name: i32, kernel: impl FnOnce() -> T) -> T {
    keepalive::steady(fd, at, (level, name), kernel)
}

/// Updates Sovia's copies of socket options. Called after the program has set the option `name`.
pub fn note_option(fd: i32, at: Ref, level: i32, name: i32) {
    if !options::leaves_fresh(level, name) {
        at.conn.approach.fresh.store(0, Ordering::Release);
    }
    // Wait for a thread that is attaching the connection. Such a thread may have read the option's old value under
    // the lock.
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
        stream::reflected::publish_user_timeout(&guard, timeout);
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
    if options::reports_times(level, name) {
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
