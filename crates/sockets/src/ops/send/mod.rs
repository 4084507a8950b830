//! The calls that send: write, writev, send, sendto, sendmsg, sendfile.
//!
//! A message that is one packet first, then what else there is room for at once.
//!
//! - `parts`: the parts of the program's memory, and a short write of several as one packet;
//! - `on_tcp`: the kernel's call, where a connection is on TCP;
//! - `long`: the pieces of a send during which the ends may meet;
//! - `rest`: what there was no room for at once;
//! - `file`: sendfile.

mod file;
mod long;
mod on_tcp;
mod parts;
mod rest;

pub use file::send_file;

use super::again;
use super::transfer::{Flags, back, make};
use crate::conn::{INLINE_MAX, Phase, flag};
use crate::fallback;
use crate::rest::come_after;
use crate::stream::{self, Put, ending};
use crate::table::Ref;
use crate::{Outcome, kernel_sockets, meeting, wait};
use long::{LONG, send_long};
use on_tcp::{send_on_tcp, send_tcp, watch_room_after};
use parts::{SHORT, length, send_joined, send_short};
use rest::{leave_if_full, send_slowly};
use sovia_signal::interrupt::Moment;
use sovia_sys::UserSlice;

/// write and send: takes `bytes`. `kernel` makes the program's own call, for a connection on TCP.
#[inline(always)]
pub fn send(
    fd: i32,
    at: Ref,
    bytes: UserSlice<'_>,
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    wait::cancellation_point();
    if is_sent_at_once(at, bytes) {
        return Ok(bytes.len());
    }
    send_generally(fd, at, &[bytes], flags, kernel)
}

/// The program's call of which this is the sending.
#[derive(Clone, Copy)]
struct Begun {
    /// Since when handlers interrupt it.
    since: Moment,
    /// It has moved bytes before these: then every handler ends it.
    has_sent: bool,
}

/// writev, sendmsg and their like: takes `parts` one after the other, as [`send`] does with one.
#[inline]
pub fn send_parts(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    // Apart, for the call has a list of parts on its stack already.
    #[inline(never)]
    fn apart(at: Ref, bytes: UserSlice<'_>) -> bool {
        is_sent_at_once(at, bytes)
    }
    wait::cancellation_point();
    match parts {
        [part] if apart(at, *part) => Ok(part.len()),
        [_, _, ..] if at.conn.is_attached() && length(parts) <= INLINE_MAX => {
            send_joined(fd, at, parts, flags, kernel)
        }
        _ => send_generally(fd, at, parts, flags, kernel),
    }
}

/// Sends `bytes` as one packet, where there is nothing else to find out; false otherwise.
#[inline(always)]
fn is_sent_at_once(at: Ref, bytes: UserSlice<'_>) -> bool {
    let Some(mut guard) = at.biased() else { return false };
    let is_sent = stream::single::send(&mut guard, bytes);
    guard.leave();
    is_sent
}

/// Sends whatever there is to find out. Apart: in the frame of a call that has found its way there is no place for any other.
#[inline(never)]
fn send_generally(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let begun = Begun { since: Moment::now(), has_sent: false };
    send_begun(fd, at, parts, flags, begun, kernel)
}

/// As [`send_generally`], for a call that has begun.
fn send_begun(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: Begun,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let conn = at.conn;
    if conn.phase() == Phase::Candidate && length(parts) > LONG {
        return send_long(fd, at, parts, flags, begun);
    }
    let kernel = match send_off_vi(fd, at, || length(parts), flags, kernel) {
        Ok(result) => return result,
        Err(kernel) => kernel,
    };
    if let [part] = parts
        && let Some(mut guard) = at.attached()
    {
        match stream::send(&mut guard, fd, *part) {
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
                    .unwrap_or_else(|_| send_slowly(fd, at, parts, flags, begun, 0));
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
    // A short gathered write goes as one packet.
    let total = length(parts);
    if parts.len() > 1 && (1..=SHORT).contains(&total) {
        return send_short(fd, at, parts, flags, begun, kernel);
    }
    send_or_kernel(fd, at, parts, flags, begun, kernel)
}

/// Where every send of `total` bytes begins. On a connection that has no VI the kernel's call is made; it comes back
/// where there is one.
#[inline]
fn send_off_vi<K: FnOnce() -> Outcome>(
    fd: i32,
    at: Ref,
    total: impl FnOnce() -> usize,
    flags: Flags,
    kernel: K,
) -> Result<Outcome, K> {
    let conn = at.conn;
    let phase = conn.phase();
    if phase != Phase::Attached
        && let Some(error) = ending::send_error(conn)
    {
        return Ok(Err(error));
    }
    if phase != Phase::Candidate
        && let Err(error) = come_after(conn, fd, flags.dont_wait)
    {
        return Ok(Err(error));
    }
    let kernel = match phase {
        Phase::Attached => {
            // A forked child that only sends must learn that its peer has died, and answer one that goes back to TCP.
            kernel_sockets::ensure_for_a_look();
            kernel
        }
        Phase::Candidate => {
            before_send(fd, at);
            let is_on_tcp = || conn.phase() != Phase::Attached;
            let sent = make(kernel, &conn.tx_pins, is_on_tcp, Some(&conn.tx_tcp));
            if let Ok(sent) = &sent {
                if conn.phase() == Phase::Attached {
                    // Another thread has given it its VI meanwhile.
                    watch_room_after(fd, at, sent, total());
                }
                if matches!(sent, Ok(1..)) && conn.phase() == Phase::Candidate {
                    meeting::sent(at);
                }
            }
            match sent {
                Ok(sent) => return Ok(sent),
                Err(kernel) => kernel,
            }
        }
        _ => return Ok(again::on_tcp(fd, at, kernel)),
    };
    if conn.is_interrupted() { Ok(Err(libc::EINTR)) } else { Err(kernel) }
}

/// A candidate is about to send: it may have been given a VI.
#[inline]
fn before_send(fd: i32, at: Ref) {
    if meeting::before_send(fd, at) {
        back(fd, at);
    }
}

fn send_or_kernel(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: Begun,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    send_on_tcp(fd, at, length(parts), kernel)
        .unwrap_or_else(|_| send_slowly(fd, at, parts, flags, begun, 0))
}
