//! Sends by the kernel's call, on a connection whose path is TCP.

use crate::conn::{Conn, Phase, flag};
use crate::ops::transfer::{Flags, keep_error, make};
use crate::stream::{self, SendPath, ending};
use crate::table::{self, Ref};
use crate::{Errno, Outcome, kernel_sockets};
use core::sync::atomic::Ordering;
use sovia_sys::{UserSlice, call};

/// Makes the kernel's call if the connection's path is TCP. Returns `None` if the path is the VI.
pub(super) fn send_on_tcp(
    fd: i32,
    at: Ref,
    total: usize,
    kernel: &impl Fn() -> Outcome,
) -> Option<Outcome> {
    let Some(mut guard) = at.attached() else { return Some(kernel()) };
    match stream::way(&mut guard, table::current(fd, at)) {
        SendPath::Vi => None,
        SendPath::Failed(e) => Some(Err(e)),
        SendPath::Kernel => {
            drop(guard);
            send_tcp(fd, at, total, kernel)
        }
    }
}

/// Makes the kernel's call on a connection that has a VI but whose path is TCP. Returns `None` if another thread has
/// switched the path since the caller's check.
pub(super) fn send_tcp(
    fd: i32,
    at: Ref,
    total: usize,
    kernel: &impl Fn() -> Outcome,
) -> Option<Outcome> {
    let conn = at.conn;
    let is_on_tcp = || !stream::goes_over_vi(conn);
    let result = make(kernel, &conn.tx_pins, is_on_tcp, Some(&conn.tx_tcp))?;
    if result == Err(libc::EPIPE)
        && let Some(guard) = at.attached()
    {
        ending::take_epipe(&guard);
    }
    if matches!(result, Ok(1..)) {
        wake_reader(at);
    }
    watch_room_after(fd, at, &result, total);
    Some(result)
}

/// Wakes threads of the peer that wait for a connection with a VI, after this end has sent bytes on TCP.
pub(super) fn wake_reader(at: Ref) {
    if let Some(guard) = at.attached() {
        stream::sent_on_tcp(&guard);
    }
}

/// If TCP had no room for all `total` bytes, asks the progress thread to report room to the program.
pub(super) fn watch_room_after(fd: i32, at: Ref, sent: &Outcome, total: usize) {
    let had_room = match sent {
        Ok(n) => *n >= total,
        Err(error) => *error != libc::EAGAIN,
    };
    if !had_room
        && let Some(guard) = at.attached()
        && let Some(fd) = table::open_descriptor(fd, at)
    {
        kernel_sockets::watch_room(&guard, fd);
    }
}

/// Sends `parts` by the kernel's call, after the connection has fallen back to TCP during a send. `partly` says
/// that the call has already sent bytes. Then the next call must return an error.
///
/// One system call sends all parts. With several calls, the peer could reset the connection at the first part, and
/// a later call would fail.
pub(super) fn send_plainly<'a>(
    conn: &Conn,
    fd: i32,
    parts: impl IntoIterator<Item = UserSlice<'a>>,
    flags: Flags,
    partly: bool,
) -> Outcome {
    let mut how = 0;
    let no_signal = flags.no_signal || partly;
    for (wanted, flag) in [(no_signal, libc::MSG_NOSIGNAL), (flags.dont_wait, libc::MSG_DONTWAIT)] {
        how |= if wanted { flag } else { 0 };
    }
    let sent = call::send_parts(fd, parts, how).map_err(crate::errno);
    sent.inspect_err(|&error| keep_kernels_error(conn, error, partly))
}

/// Like [`send_plainly`], but never blocks, and counts the bytes sent on TCP. The sender gets an error of an ended
/// connection from the kernel's result.
pub(super) fn raw_send<'a>(
    conn: &Conn,
    fd: i32,
    parts: impl IntoIterator<Item = UserSlice<'a>>,
    flags: Flags,
    partly: bool,
) -> Outcome {
    let n = send_plainly(conn, fd, parts, Flags { dont_wait: true, ..flags }, partly)?;
    conn.tx_tcp.fetch_add(n as u64, Ordering::AcqRel);
    Ok(n)
}

/// Stores an error that the kernel reports only once, if the call has already sent bytes. The next call returns the
/// error. Does not store EPIPE if the program itself has shut the sending half, because the kernel reports EPIPE at
/// each call. Does not store EPIPE for a connection without a VI either, because no call would return the stored
/// error.
fn keep_kernels_error(conn: &Conn, error: Errno, partly: bool) {
    let is_reported_again = match error {
        libc::EAGAIN | libc::EINTR => true,
        libc::EPIPE => conn.has(flag::SHUT_WR) || conn.phase() != Phase::Attached,
        _ => false,
    };
    if partly && !is_reported_again {
        keep_error(conn, error);
    }
}
