//! Sends the bytes of a call for which there was no room at first. Waits for room, or sends on TCP.

use super::CallState;
use super::on_tcp::{raw_send, send_plainly};
use super::parts::{all_of, are_there, length, rest_of};
use crate::conn::flag;
use crate::ops::keep;
use crate::ops::transfer::{Flags, deadline, keep_error};
use crate::stream::{self, Put, SendPath};
use crate::table::{self, Ref};
use crate::wait::{self, Call, Ended, Want};
use crate::{Outcome, fallback, kernel_sockets};
use sovia_proto::path::Tx;
use sovia_sys::UserSlice;

/// Sends the bytes of `parts` from position `done` on. Waits for room.
pub(super) fn send_slowly(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: CallState,
    done: usize,
) -> Outcome {
    let result = send_rest(fd, at, parts, flags, begun, done);
    keep::leave();
    result
}

fn send_rest(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: CallState,
    mut done: usize,
) -> Outcome {
    let conn = at.conn;
    let total = length(parts);
    let mut call = Call::begin(fd, at, deadline(&conn.send_timeout), begun.since);
    let patient = !flags.dont_wait && !conn.has(flag::NONBLOCK);
    let mut may_leave = true;
    while done < total {
        let mut is_full = false;
        let attempt = |guard: &mut crate::conn::Guard<'_>| {
            let fd = keep::descriptor(fd, at);
            // Send as many parts as there is room for, so that no other thread's bytes come in between.
            let mut sent = 0;
            let put = loop {
                if done + sent == 0 && !are_there(parts) {
                    break match stream::way(guard, fd) {
                        SendPath::Vi => Put::Failed(libc::EFAULT),
                        SendPath::Failed(error) => Put::Failed(error),
                        SendPath::Kernel => Put::AskKernel,
                    };
                }
                let Some(rest) = rest_of(parts, done + sent) else { return Some(Ok(sent)) };
                match stream::send(guard, fd, rest) {
                    Put::Bytes(n) if n == rest.len() => sent += n,
                    Put::Bytes(n) => return Some(Ok(sent + n)),
                    _ if sent > 0 => return Some(Ok(sent)),
                    put => break put,
                }
            };
            match put {
                Put::Bytes(n) => Some(Ok(n)),
                Put::Failed(e) => {
                    if done > 0 {
                        // This call returns the number of bytes sent, and the next call returns the error.
                        keep_error(guard.conn, e);
                    }
                    Some(Err(e))
                }
                Put::AskKernel => {
                    match raw_send(guard.conn, fd, all_of(parts, done), flags, done > 0) {
                        Err(libc::EAGAIN) => {
                            kernel_sockets::watch_room(guard, fd);
                            None
                        }
                        Err(libc::EPIPE) if done == 0 => {
                            stream::ending::take_epipe(guard);
                            Some(Err(libc::EPIPE))
                        }
                        result => Some(result.inspect(|_| stream::sent_on_tcp(guard))),
                    }
                }
                Put::Full if may_leave && guard.conn.has(flag::UNTIL_FULL) => {
                    is_full = true;
                    Some(Ok(0))
                }
                Put::Full => None,
            }
        };
        let waited = if patient {
            call.ends_at_handler = begun.has_sent || done > 0;
            wait::until(&mut call, Want::Send, attempt)
        } else {
            wait::look(at, attempt)
        };
        let result = match waited {
            Ok(result) => result,
            Err(Ended::Plain) => {
                send_plainly(conn, keep::descriptor(fd, at), all_of(parts, done), flags, done > 0)
            }
            Err(Ended::Failed(e)) => Err(e),
        };
        match result {
            Ok(n) => done += n,
            Err(_) if done > 0 => return Ok(done),
            Err(e) => return Err(e),
        }
        if is_full {
            may_leave = false;
            leave_if_full(fd, at);
        }
    }
    if conn.has(flag::UNTIL_FULL) {
        leave_if_full(fd, at);
    }
    Ok(done)
}

/// Moves the sending direction to TCP if the program has set TCP_USER_TIMEOUT and the VI is full. The kernel can
/// then apply this timeout to the bytes on TCP.
#[cold]
#[inline(never)]
pub(super) fn leave_if_full(fd: i32, at: Ref) {
    if !at.conn.has(flag::UNTIL_FULL) {
        return;
    }
    let Some(fd) = table::open_descriptor(fd, at) else { return };
    if is_full(fd, at) {
        fallback::sending(fd, at);
    }
}

/// Returns true if this end sends on the VI, and the VI has no room.
pub(super) fn is_full(fd: i32, at: Ref) -> bool {
    at.attached().is_some_and(|mut guard| {
        at.conn.tx() == Tx::Vi && !stream::writable(&mut guard, table::current(fd, at))
    })
}
