//! Receives bytes: from TCP up to the sender's switch, then from the VI.

use super::entering::{Origin, grant, next_from};
use super::hold::scan;
use super::kernel_socket::acknowledge;
use super::peek::peek_nothing;
use super::state::{self, Receives};
use super::take::{has_kept, is_ending, receive_vi, receive_vi_here};
use super::tcp_end::{limit_on_tcp, tcp_gave_nothing};
use super::{
    Fault, Got, combine, corrupt, ending, failed, failover, failure, reflected, rx, unanswered,
    word,
};
use crate::conn::lent;
use crate::conn::{Conn, Guard, HasEndpoint, flag};
use crate::{errno, process};
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;
use sovia_proto::path::{Rx, Tx};
use sovia_sys::{UserSliceMut, cache, call};

/// Receives available bytes into `out`. Grants the VI to the sender if this end still receives on TCP. So call it
/// only for a program that reads.
#[inline(always)]
pub fn receive(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Got {
    if !out.is_empty() && finds_nothing(guard) {
        cache::look_in_turn();
        return Got::Nothing;
    }
    receive_some(guard, fd, out)
}

/// Fast path for programs that call receive in a loop. Returns true only if there are no bytes to receive and the
/// connection has no pending work.
#[inline(always)]
fn finds_nothing(guard: &Guard<'_>) -> bool {
    const UNUSUAL: u32 = state::RECEIVES | flag::WITHHELD | flag::HAS_HANDLER;
    guard.endpoint_ref().rx.awaits_message()
        && guard.conn.rx() == Rx::Vi
        && !guard.conn.has(UNUSUAL)
        && guard.unnotified == 0
        && guard.held_first == guard.held_end
        && rx(guard).writer.load(word::TAIL) == guard.taker.head
}

fn receive_some(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Got {
    let got = receive_what_is_there(guard, fd, out);
    if guard.conn.has(flag::WITHHELD) {
        ending::come_close(guard, fd);
    }
    got
}

#[inline(always)]
fn receive_what_is_there(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Got {
    let conn = guard.conn;
    combine::notify_receiver(guard);
    if out.is_empty() {
        return peek_nothing(guard, fd);
    }
    if let Some(got) = reflected::instead(guard) {
        return got;
    }
    if conn.rx() == Rx::Vi {
        match receive_vi_here(guard, out) {
            Ok(0) => {}
            Ok(n) if n < out.len() && conn.rx() != Rx::Vi => {
                return Got::Bytes(n + receive_after_way_back(guard, fd, out.skip(n)));
            }
            Ok(n) => return Got::Bytes(n),
            Err(fault) => return Got::Failed(failed(conn, fd, fault)),
        }
    }
    receive_elsewhere(guard, fd, out)
}

/// Receives from TCP after the sender has moved back to TCP. Returns the number of bytes, or 0 at the end of the
/// stream or on an error, which the next call reports.
#[cold]
#[inline(never)]
fn receive_after_way_back(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> usize {
    if !call::bytes_unread(fd).is_ok_and(|n| n > 0) {
        return 0;
    }
    match receive_tcp(guard, fd, out) {
        Some(Got::Bytes(n)) => n,
        _ => 0,
    }
}

/// Slow path of a receive: the VI has no bytes, or the direction is not on the VI. Not inlined, to keep the stack
/// frame of the fast path small.
#[inline(never)]
fn receive_elsewhere(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Got {
    let conn = guard.conn;
    loop {
        if conn.rx() == Rx::Vi && !failover::leaves_vi(guard) {
            match idle(guard, fd, true) {
                Got::Bytes(_) => {}
                got => return got,
            }
            match receive_on_vi(guard, fd, out) {
                None if conn.rx() != Rx::Vi => {}
                None if is_ending(guard) => return at_fin(conn, fd),
                None => return Got::Nothing,
                Some(got) => return got,
            }
        }
        if conn.has(flag::CORRUPT) {
            return failure(conn, true);
        }
        if let Some(got) = receive_tcp(guard, fd, out) {
            return got;
        }
        if let Some(got) = receive_on_vi(guard, fd, out) {
            return got;
        }
    }
}

/// Receives from the VI. Returns `None` if the VI has no bytes.
fn receive_on_vi(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Option<Got> {
    match receive_vi_and_behind(guard, fd, out) {
        Ok(0) => None,
        Ok(n) => Some(Got::Bytes(n)),
        Err(fault) => Some(Got::Failed(failed(guard.conn, fd, fault))),
    }
}

/// Receives from the VI, and then also from TCP if the sender has moved back to TCP. Returns the number of bytes.
fn receive_vi_and_behind(
    guard: &mut Guard<'_>,
    fd: i32,
    out: UserSliceMut<'_>,
) -> Result<usize, Fault> {
    let n = receive_vi(guard, out)?;
    let is_back = n < out.len() && guard.conn.rx() != Rx::Vi;
    Ok(if is_back { n + receive_after_way_back(guard, fd, out.skip(n)) } else { n })
}

/// Returns the result of a receive if the VI has no bytes: the end of the stream, an error, or [`Got::Nothing`].
/// Returns `Bytes(0)` if bytes have arrived in the meantime. If `takes` is true, the program sees the result, so
/// this consumes the stored error.
pub(super) fn idle(guard: &mut Guard<'_>, fd: i32, takes: bool) -> Got {
    let conn = guard.conn;
    match state::receives(conn.flags(), false) {
        Receives::Waits => return Got::Nothing,
        Receives::End if takes => return at_fin(conn, fd),
        Receives::End => return Got::End,
        Receives::Fails => return failure(conn, takes),
        Receives::Asks | Receives::Gone => {}
    }
    let gone = match conn.has(flag::SHUT_RD) {
        // This end's own shutdown would make the receive return the end of the stream. An error of the connection
        // has precedence, so the kernel is asked for one.
        true => ending::has_gone_by_now(guard, fd),
        false => ending::has_gone(guard, fd),
    };
    // Looks at the ring again: packets that the peer sent before it died or closed are visible by now.
    if (gone || conn.has(flag::KERNEL_SOCKET)) && scan(guard).is_err() {
        return Got::Failed(corrupt(conn, fd));
    }
    if has_kept(guard) {
        return Got::Bytes(0);
    }
    match state::receives(conn.flags(), true) {
        Receives::Gone if takes => match end(conn, fd) {
            Got::Nothing if conn.has(flag::SHUT_RD) => Got::End,
            found => found,
        },
        Receives::Gone | Receives::End => Got::End,
        Receives::Fails => failure(conn, takes),
        Receives::Asks | Receives::Waits => Got::Nothing,
    }
}

/// Returns the result of a receive after the peer has gone and all bytes are read. Returns the stored error once,
/// and later the kernel's result.
fn end(conn: &Conn, fd: i32) -> Got {
    if let Some(error) = ending::receive_error(conn) {
        return Got::Failed(error);
    }
    match kernel_socket(fd) {
        // The peer is dead, but the FIN of its kernel socket has not arrived yet.
        Got::Nothing if conn.has(flag::DEAD) => end_of_stream(conn),
        Got::End => end_of_stream(conn),
        got => got,
    }
}

/// Returns the end of the stream, or an error if a relay may have taken bytes that a relative of this process had to
/// read. The stream must not look complete.
fn end_of_stream(conn: &Conn) -> Got {
    if !conn.has(flag::RELAYED) || process::is_relay() {
        return Got::End;
    }
    match conn.lent.load(Ordering::Acquire) {
        lent::RETURNED => Got::End,
        lent::OUT => Got::Nothing,
        _ => Got::Failed(libc::ECONNRESET),
    }
}

/// Returns the result of a receive after the peer's FIN on the VI: the end of the stream ([`end_of_stream`]). This is
/// an error if this end has shut its receiving half and the kernel socket was reset.
pub(super) fn at_fin(conn: &Conn, fd: i32) -> Got {
    match conn.has(flag::SHUT_RD).then(|| kernel_socket(fd)) {
        None | Some(Got::Nothing) => end_of_stream(conn),
        Some(found) => found,
    }
}

/// Returns the result of a receive on the kernel socket after all bytes on the VI are read. Does not consume bytes.
fn kernel_socket(fd: i32) -> Got {
    let mut byte = [0u8; 1];
    match call::recv(fd, &mut byte, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
        Ok(_) => Got::End,
        Err(call::Errno::EAGAIN) => Got::Nothing,
        Err(e) => Got::Failed(errno(e)),
    }
}

/// Receives from TCP. Returns `None` if the direction has moved to the VI.
fn receive_tcp(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Option<Got> {
    let conn = guard.conn;
    grant(guard, fd);
    let limit = match limit_on_tcp(guard, fd) {
        ControlFlow::Continue(limit) => limit.min(out.len()),
        ControlFlow::Break(got) => return got,
    };
    conn.clear(flag::KERNEL_SOCKET);
    let got = match call::recv(fd, out.first(limit), libc::MSG_DONTWAIT) {
        Ok(0) if limit == 0 => Got::Bytes(0),
        Ok(n @ 1..) => {
            conn.set(flag::KERNEL_SOCKET);
            conn.rx_tcp.fetch_add(n as u64, Ordering::AcqRel);
            unanswered::settle(guard);
            if conn.tx() == Tx::Vi {
                acknowledge(fd);
            }
            // At the sender's switch, the same call also receives from the VI. The next call reports a fault on the
            // VI.
            let is_at_switch = n < out.len() && matches!(next_from(guard), Ok(Origin::Vi));
            let behind = |guard| receive_vi_and_behind(guard, fd, out.skip(n)).unwrap_or(0);
            Got::Bytes(if is_at_switch { n + behind(guard) } else { n })
        }
        nothing => return tcp_gave_nothing(guard, fd, nothing),
    };
    Some(got)
}
