//! Calls that receive: read, readv, recv, recvfrom, recvmsg.
//!
//! A call first tries to receive one packet on the fast path. Then the call receives bytes that have already
//! arrived. If there are none, the call waits. On TCP, the kernel receives the bytes. `parts` fills the program's
//! buffers.

mod parts;

use super::transfer::{Flags, back, deadline, keep_error, make};
use super::{again, keep};
use crate::conn::{Phase, flag};
use crate::fallback;
use crate::stream::{self, Got, ending};
use crate::table::{self, Ref};
use crate::wait::{self, Call, Ended, Want};
use crate::{Outcome, kernel_sockets, rendezvous};
use parts::{peek, scatter};
use sovia_proto::path::Rx;
use sovia_signal::interrupt::Moment;
use sovia_sys::{UserSliceMut, call};

/// Does `read` and `recv`: fills `out`. `kernel` makes the program's own call, for a connection on TCP.
#[inline(always)]
pub fn receive(
    fd: i32,
    at: Ref,
    out: UserSliceMut<'_>,
    flags: Flags,
    kernel: impl Fn() -> Outcome,
) -> Outcome {
    wait::cancellation_point();
    if let Some(result) = receive_at_once(fd, at, out, flags) {
        return result;
    }
    receive_generally(fd, at, &[out], flags, &kernel)
}

/// Does `readv`, `recvmsg` and similar calls: fills `parts` in order, like [`receive`].
#[inline]
pub fn receive_parts(
    fd: i32,
    at: Ref,
    parts: &[UserSliceMut<'_>],
    flags: Flags,
    kernel: impl Fn() -> Outcome,
) -> Outcome {
    // Not inlined, because the caller's stack frame already has the list of parts.
    #[inline(never)]
    fn apart(fd: i32, at: Ref, out: UserSliceMut<'_>, flags: Flags) -> Option<Outcome> {
        receive_at_once(fd, at, out, flags)
    }
    wait::cancellation_point();
    if let [part] = parts
        && let Some(result) = apart(fd, at, *part, flags)
    {
        return result;
    }
    receive_generally(fd, at, parts, flags, &kernel)
}

/// Fast path: receives one packet, or finds that none has arrived, on a connection with no pending work. Returns
/// `None` if the general path must do the call.
#[inline(always)]
fn receive_at_once(fd: i32, at: Ref, out: UserSliceMut<'_>, flags: Flags) -> Option<Outcome> {
    if out.is_empty() || flags.peek || flags.wait_all {
        return None;
    }
    let mut guard = at.biased()?;
    let got = stream::single::receive(&mut guard, fd, out);
    guard.leave();
    match got? {
        Got::Bytes(n) => Some(Ok(n)),
        Got::Failed(e) => Some(Err(e)),
        Got::Nothing if flags.dont_wait || at.conn.has(flag::NONBLOCK) => {
            let is_sure = !kernel_sockets::ensure_for_a_look() && !fallback::concerns(at.conn);
            is_sure.then_some(Err(libc::EAGAIN))
        }
        Got::Nothing | Got::End => None,
    }
}

/// The general path of a receive. Not inlined, to keep the fast path's stack frame small.
#[inline(never)]
fn receive_generally(
    fd: i32,
    at: Ref,
    parts: &[UserSliceMut<'_>],
    flags: Flags,
    kernel: &impl Fn() -> Outcome,
) -> Outcome {
    let since = Moment::now();
    let conn = at.conn;
    let phase = conn.phase();
    // The error comes after the bytes that have arrived, as on TCP.
    if phase != Phase::Attached
        && conn.has(flag::ERROR)
        && call::bytes_unread(fd).unwrap_or(0) == 0
        && let Some(error) = ending::receive_error(conn)
    {
        return Err(error);
    }
    match phase {
        Phase::Attached => {}
        Phase::Eligible => {
            let is_on_tcp = || conn.phase() != Phase::Attached || conn.rx() == Rx::Tcp;
            let counter = (!flags.peek).then_some(&conn.rx_tcp);
            if let Some(result) = make(kernel, &conn.rx_pins, is_on_tcp, counter) {
                let n = result?;
                if n > 0 && conn.phase() == Phase::Eligible {
                    received(fd, at);
                }
                return Ok(n);
            }
        }
        _ => return again::on_tcp(fd, at, kernel),
    }
    if conn.rx() == Rx::Back {
        fallback::settle(at);
        // Make the kernel's call only without a VI. A thread that sleeps in this call and a relay would read the
        // same bytes.
        if !conn.is_attached() {
            return kernel();
        }
    }
    if conn.is_interrupted() {
        return Err(libc::EINTR);
    }
    // This is the common case: there is one part, and bytes have arrived.
    if let [part] = parts
        && !part.is_empty()
        && !flags.peek
        && !flags.wait_all
        && let Some(mut guard) = at.attached()
    {
        match stream::receive(&mut guard, table::current(fd, at), *part) {
            Got::Bytes(n) => return Ok(n),
            Got::End => return Ok(0),
            Got::Failed(e) => return Err(e),
            Got::Nothing => {}
        }
        if flags.dont_wait || conn.has(flag::NONBLOCK) {
            drop(guard);
            if kernel_sockets::ensure_for_a_look() {
                return receive_generally(fd, at, parts, flags, kernel);
            }
            if !fallback::concerns(conn) {
                return Err(libc::EAGAIN);
            }
            fallback::settle(at);
            if !fallback::is_bringing(fd, at) {
                return Err(libc::EAGAIN);
            }
        }
    }
    let result = receive_slowly(fd, at, parts, flags, since, kernel);
    keep::leave();
    result
}

/// Records that a connection that is not yet accelerated has received bytes. If the connection has a VI by now,
/// grants the VI to the peer, because the program reads.
#[inline]
fn received(fd: i32, at: Ref) {
    if rendezvous::received(fd, at) {
        back(fd, at);
    } else if at.conn.phase() == Phase::Attached
        && let Some(mut guard) = at.attached()
    {
        stream::grant(&mut guard, table::current(fd, at));
    }
}

fn receive_slowly(
    fd: i32,
    at: Ref,
    parts: &[UserSliceMut<'_>],
    flags: Flags,
    since: Moment,
    kernel: &impl Fn() -> Outcome,
) -> Outcome {
    let conn = at.conn;
    let wanted: usize = parts.iter().map(|part| part.len()).sum();
    if wanted == 0 && !flags.empty_waits {
        return Ok(0);
    }
    let mut call = Call::begin(fd, at, deadline(&conn.receive_timeout), since);
    let patient = !flags.dont_wait && !conn.has(flag::NONBLOCK);
    let (mut done, mut has_looked) = (0, false);
    loop {
        let attempt = |guard: &mut crate::conn::Guard<'_>| {
            let fd = keep::descriptor(fd, at);
            if wanted == 0 && core::mem::replace(&mut has_looked, true) {
                // A receive of no bytes is complete when the wait ends for any reason. A later call returns an
                // error.
                return stream::readable(guard, fd).then_some(Ok(0));
            }
            let got =
                if flags.peek { peek(guard, fd, parts) } else { scatter(guard, fd, parts, done) };
            match got {
                Got::Bytes(n) => Some(Ok(n)),
                Got::End => Some(Ok(0)),
                Got::Failed(e) => {
                    if done > 0 {
                        // This call returns the bytes received, and the next call returns the error.
                        keep_error(guard.conn, e);
                    }
                    Some(Err(e))
                }
                Got::Nothing => {
                    // Continue a fallback, because the thread that began it may have ended.
                    fallback::go_on_under(guard, fd);
                    None
                }
            }
        };
        let waited = if patient {
            call.ends_at_handler = done > 0 || wanted == 0;
            wait::until(&mut call, Want::Receive, attempt)
        } else {
            wait::look(at, attempt)
        };
        let result = match waited {
            Ok(result) => result,
            Err(Ended::Plain) if done == 0 => {
                let now = keep::descriptor(fd, at);
                return if now == fd { kernel() } else { receive_plainly(now, parts, flags) };
            }
            Err(Ended::Plain) => return Ok(done),
            Err(Ended::Failed(libc::EAGAIN | libc::EINTR)) if patient && wanted == 0 => {
                return Ok(0);
            }
            Err(Ended::Failed(e)) => Err(e),
        };
        match result {
            Ok(n) if flags.peek => {
                if !flags.wait_all || !patient || n == wanted {
                    return Ok(n);
                }
                // Only the kernel can wait for more bytes without consuming the bytes that have arrived.
                back(fd, at);
                return kernel();
            }
            Ok(0) => return Ok(done),
            Ok(n) => {
                done += n;
                if done == wanted || !flags.wait_all || !patient {
                    return Ok(done);
                }
            }
            Err(_) if done > 0 => return Ok(done),
            Err(e) => return Err(e),
        }
    }
}

/// Receives by the kernel's call, after a fallback to TCP. Called if the program has closed the call's own
/// descriptor, so `fd` is a private descriptor.
fn receive_plainly(fd: i32, parts: &[UserSliceMut<'_>], flags: Flags) -> Outcome {
    let part = parts.iter().find(|part| !part.is_empty()).copied().unwrap_or_default();
    let mut how = 0;
    for (wanted, flag) in [
        (flags.peek, libc::MSG_PEEK),
        (flags.wait_all, libc::MSG_WAITALL),
        (flags.dont_wait, libc::MSG_DONTWAIT),
    ] {
        how |= if wanted { flag } else { 0 };
    }
    call::recv(fd, part, how).map_err(crate::errno)
}
