//! Sends that the kernel's call makes, because the connection is on TCP.

use crate::conn::{Conn, Phase, flag};
use crate::ops::transfer::{Flags, keep_error, make};
use crate::stream::{self, Way, ending};
use crate::table::{self, Ref};
use crate::{Errno, Outcome, kernel_sockets};
use core::sync::atomic::Ordering;
use sovia_sys::{UserSlice, call};

/// The kernel's own call serves a connection that is on TCP all through. It comes back if there is a VI to send on.
pub(super) fn send_on_tcp<K: FnOnce() -> Outcome>(
    fd: i32,
    at: Ref,
    total: usize,
    kernel: K,
) -> Result<Outcome, K> {
    let Some(mut guard) = at.attached() else { return Ok(kernel()) };
    match stream::way(&mut guard, fd) {
        Way::Vi => Err(kernel),
        Way::Failed(e) => Ok(Err(e)),
        Way::Kernel => {
            drop(guard);
            send_tcp(fd, at, total, kernel)
        }
    }
}

/// The kernel's call on an attached connection that is on TCP now. It comes back if another thread has switched the
/// path between the look and the call.
pub(super) fn send_tcp<K: FnOnce() -> Outcome>(
    fd: i32,
    at: Ref,
    total: usize,
    kernel: K,
) -> Result<Outcome, K> {
    let conn = at.conn;
    let is_on_tcp = || !stream::goes_over_vi(conn);
    let result = make(kernel, &conn.tx_pins, is_on_tcp, Some(&conn.tx_tcp))?;
    if result == Err(libc::EPIPE)
        && let Some(guard) = at.attached()
    {
        ending::take_epipe(&guard);
    }
    watch_room_after(fd, at, &result, total);
    Ok(result)
}

/// TCP has had no room for all of `total`: the program is to hear of it when it has.
pub(super) fn watch_room_after(fd: i32, at: Ref, sent: &Outcome, total: usize) {
    let had_room = match sent {
        Ok(n) => *n >= total,
        Err(error) => *error != libc::EAGAIN,
    };
    if !had_room
        && let Some(guard) = at.attached()
        && let Some(fd) = number_of(fd, at)
    {
        kernel_sockets::watch_room(&guard, fd);
    }
}

/// A descriptor of the connection: the number of a call's may be another one's by now.
pub(super) fn number_of(fd: i32, at: Ref) -> Option<i32> {
    if table::refers(fd, at) { Some(fd) } else { table::descriptor_of(at.conn) }
}

/// Sends the rest of a send whose connection has gone back to TCP in the middle. `partly`: the call has sent something, so an
/// error is the next call's.
///
/// All parts go by one call: a peer that resets the connection answers what it gets first.
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

/// Asks the kernel for its verdict on such a send whose path has ended. Never blocks. Otherwise as [`send_plainly`].
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

/// Keeps an error that the kernel reports once, to a call that has sent something: the next one returns it. Each call gets the EPIPE of
/// a half that the program has shut itself. On a connection that is not attached nothing would take a kept EPIPE.
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
