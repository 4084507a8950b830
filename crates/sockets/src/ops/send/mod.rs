//! Calls that send: write, writev, send, sendto, sendmsg, sendfile.
//!
//! A call first tries to send one packet on the fast path. Then the call sends as many bytes as there is room for.
//! If bytes are left, the call waits for room.
//!
//! - `parts`: the buffers of a call. Combines a short write of several buffers into one packet.
//! - `on_tcp`: the kernel's call, for a connection on TCP.
//! - `long`: a send in pieces, between which a rendezvous may take place.
//! - `rest`: sends the bytes for which there was no room at first.
//! - `file`: sendfile.

mod file;
mod long;
mod on_tcp;
mod parts;
mod rest;

pub use file::{send_file, splice_to};

use super::again;
use super::transfer::{Flags, back, make};
use crate::conn::{INLINE_MAX, Phase, flag};
use crate::fallback;
use crate::stream::{self, Put, ending};
use crate::table::{self, Ref};
use crate::{Outcome, kernel_sockets, rendezvous, wait};
use long::{LONG, send_long};
use on_tcp::{send_on_tcp, send_tcp, wake_reader, watch_room_after};
use parts::{SHORT, length, send_joined, send_short};
use rest::{leave_if_full, send_slowly};
use sovia_signal::interrupt::Moment;
use sovia_sys::UserSlice;

/// Does `write` and `send`: sends `bytes`. `kernel` makes the program's own call, for a connection on TCP.
#[inline(always)]
pub fn send(
    fd: i32,
    at: Ref,
    bytes: UserSlice<'_>,
    flags: Flags,
    kernel: impl Fn() -> Outcome,
) -> Outcome {
    wait::cancellation_point();
    if is_sent_at_once(at, bytes) {
        return Ok(bytes.len());
    }
    send_generally(fd, at, &[bytes], flags, &kernel)
}

/// State of the program's call to which a send belongs.
#[derive(Clone, Copy)]
struct CallState {
    /// Time of the call's begin. A signal handler that runs later interrupts the call.
    since: Moment,
    /// Set if the call has already sent bytes. Then any signal handler ends the call.
    has_sent: bool,
}

/// Does `writev`, `sendmsg` and similar calls: sends `parts` in order, like [`send`].
#[inline]
pub fn send_parts(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    kernel: impl Fn() -> Outcome,
) -> Outcome {
    // Not inlined, because the caller's stack frame already has the list of parts.
    #[inline(never)]
    fn apart(at: Ref, bytes: UserSlice<'_>) -> bool {
        is_sent_at_once(at, bytes)
    }
    wait::cancellation_point();
    match parts {
        [part] if apart(at, *part) => Ok(part.len()),
        [_, _, ..] if at.conn.is_attached() && length(parts) <= INLINE_MAX => {
            send_joined(fd, at, parts, flags, &kernel)
        }
        _ => send_generally(fd, at, parts, flags, &kernel),
    }
}

/// Fast path: sends `bytes` as one packet. Returns false if the connection's lock is not biased to the calling
/// thread, or if other work is pending.
#[inline(always)]
fn is_sent_at_once(at: Ref, bytes: UserSlice<'_>) -> bool {
    let Some(mut guard) = at.biased() else { return false };
    let is_sent = stream::single::send(&mut guard, bytes);
    guard.leave();
    is_sent
}

/// The general path of a send. Not inlined, to keep the fast path's stack frame small.
#[inline(never)]
fn send_generally(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    kernel: &impl Fn() -> Outcome,
) -> Outcome {
    let begun = CallState { since: Moment::now(), has_sent: false };
    send_begun(fd, at, parts, flags, begun, kernel)
}

/// Like [`send_generally`], for a call that began earlier.
fn send_begun(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: CallState,
    kernel: &impl Fn() -> Outcome,
) -> Outcome {
    let conn = at.conn;
    if conn.phase() == Phase::Eligible && length(parts) > LONG {
        return send_long(fd, at, parts, flags, begun);
    }
    if let Some(result) = send_off_vi(fd, at, || length(parts), kernel) {
        return result;
    }
    if let [part] = parts
        && let Some(mut guard) = at.attached()
    {
        match stream::send(&mut guard, table::current(fd, at), *part) {
            Put::Bytes(n) if n == part.len() => {
                if conn.has(flag::UNTIL_FULL) {
                    drop(guard);
                    leave_if_full(fd, at);
                }
                return Ok(n);
            }
            Put::Bytes(n) => {
                drop(guard);
                if flags.dont_wait || conn.has(flag::NONBLOCK) {
                    leave_if_full(fd, at);
                    return Ok(n);
                }
                return send_slowly(fd, at, parts, flags, begun, n);
            }
            Put::Failed(e) => return Err(e),
            Put::AskKernel => {
                drop(guard);
                fallback::settle(at);
                if part.len() > LONG {
                    return send_slowly(fd, at, parts, flags, begun, 0);
                }
                return send_tcp(fd, at, length(parts), kernel)
                    .unwrap_or_else(|| send_slowly(fd, at, parts, flags, begun, 0));
            }
            Put::Full => {
                if flags.dont_wait || conn.has(flag::NONBLOCK) {
                    drop(guard);
                    leave_if_full(fd, at);
                    kernel_sockets::ensure_for_a_look();
                    return Err(libc::EAGAIN);
                }
            }
        }
    }
    // Combine a short write of several buffers into one packet.
    let total = length(parts);
    if parts.len() > 1 && (1..=SHORT).contains(&total) {
        return send_short(fd, at, parts, flags, begun, kernel);
    }
    send_or_kernel(fd, at, parts, flags, begun, kernel)
}

/// Does the first step of a send of `total` bytes. On a connection without a VI, makes the kernel's call and
/// returns its result. On a connection with a VI, returns `None`.
#[inline]
fn send_off_vi(
    fd: i32,
    at: Ref,
    total: impl FnOnce() -> usize,
    kernel: &impl Fn() -> Outcome,
) -> Option<Outcome> {
    let conn = at.conn;
    let phase = conn.phase();
    if phase != Phase::Attached
        && let Some(error) = ending::send_error(conn)
    {
        return Some(Err(error));
    }
    match phase {
        Phase::Attached => {
            // Start the progress thread if it is missing in a forked child that only sends. The progress thread
            // notices a dead peer, and answers a peer that revokes a direction.
            kernel_sockets::ensure_for_a_look();
        }
        Phase::Eligible => {
            before_send(fd, at);
            let is_on_tcp = || conn.phase() != Phase::Attached;
            let sent = make(kernel, &conn.tx_pins, is_on_tcp, Some(&conn.tx_tcp));
            if let Some(sent) = &sent {
                if conn.phase() == Phase::Attached {
                    // Another thread has made a VI for the connection during the kernel's call.
                    watch_room_after(fd, at, sent, total());
                }
                if matches!(sent, Ok(1..)) {
                    has_sent(fd, at);
                }
            }
            if sent.is_some() {
                return sent;
            }
        }
        _ => return Some(again::on_tcp(fd, at, kernel)),
    }
    conn.is_interrupted().then_some(Err(libc::EINTR))
}

/// Prepares a send on a connection that is not yet accelerated. If the rendezvous has just made a VI that the
/// connection cannot keep, starts the fallback to TCP.
#[inline]
fn before_send(fd: i32, at: Ref) {
    if rendezvous::before_send(fd, at) {
        back(fd, at);
    }
}

/// Counts a send of a connection that was not accelerated before the send. If the connection has a VI by now, wakes
/// the peer's reader, which may have been given the VI first.
#[inline]
fn has_sent(fd: i32, at: Ref) {
    if at.conn.phase() == Phase::Eligible && rendezvous::sent(fd, at) {
        back(fd, at);
    } else if at.conn.phase() == Phase::Attached {
        wake_reader(at);
    }
}

fn send_or_kernel(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: CallState,
    kernel: &impl Fn() -> Outcome,
) -> Outcome {
    send_on_tcp(fd, at, length(parts), kernel)
        .unwrap_or_else(|| send_slowly(fd, at, parts, flags, begun, 0))
}
