//! Receives bytes: from TCP up to the switch, then from the VI.

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
use crate::conn::{Conn, Guard, HasEndpoint, flag};
use crate::errno;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;
use sovia_proto::path::{Rx, Tx};
use sovia_sys::{UserSliceMut, cache, call};

/// Receives available bytes into `out`. Grants the VI to the sender if the connection has one, so only a reading
/// program may be the caller.
#[inline(always)]
pub fn receive(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Got {
    if !out.is_empty() && finds_nothing(guard) {
        cache::look_in_turn();
        return Got::Nothing;
    }
    receive_some(guard, fd, out)
}

/// Fast path: returns true if there is certainly nothing to receive, on a connection with no pending work. A program
/// that polls gets this answer most often.
#[inline(always)]
fn finds_nothing(guard: &Guard<'_>) -> bool {
    const UNUSUAL: u32 = state::RECEIVES | flag::WITHHELD | flag::HANDLED;
    guard.endpoint_ref().rx.awaits_message()
        && guard.conn.rx() == Rx::Vi
        && !guard.conn.has(UNUSUAL)
        && guard.untold == 0
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
    combine::tell(guard);
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

/// Continues on TCP after the sender has moved back there, and returns the number of bytes. Only for bytes: the next
/// call reports an end or an error.
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

/// Receives if the VI has no bytes, or if the direction is not on the VI. Not inlined, to keep the stack frame of other
/// receives small.
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

/// Receives from the VI; `None` if it has no bytes.
fn receive_on_vi(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Option<Got> {
    match receive_vi_and_behind(guard, fd, out) {
        Ok(0) => None,
        Ok(n) => Some(Got::Bytes(n)),
        Err(fault) => Some(Got::Failed(failed(guard.conn, fd, fault))),
    }
}

/// Receives from the VI, then from TCP if the sender has moved back there. Returns the number of bytes.
fn receive_vi_and_behind(
    guard: &mut Guard<'_>,
    fd: i32,
    out: UserSliceMut<'_>,
) -> Result<usize, Fault> {
    let n = receive_vi(guard, out)?;
    let is_back = n < out.len() && guard.conn.rx() != Rx::Vi;
    Ok(if is_back { n + receive_after_way_back(guard, fd, out.skip(n)) } else { n })
}

/// Decides the result of a receive on a VI without bytes: the end, an error, or [`Got::Nothing`] if there are no bytes
/// yet. `Bytes(0)` means that bytes have come after all. `takes`: the program sees the result, so an error that is
/// reported once is consumed.
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
        // An error has precedence over an end that this end has made itself.
        true => ending::has_gone_by_now(guard, fd),
        false => ending::has_gone(guard, fd),
    };
    // Everything that the peer put on the VI before it left is visible by now.
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

/// Returns the end of a stream whose peer has gone and whose bytes are all read: an error, once, or end of file.
fn end(conn: &Conn, fd: i32) -> Got {
    if let Some(error) = ending::receive_error(conn) {
        return Got::Failed(error);
    }
    match kernel_socket(fd) {
        // The FIN of the dead peer is still to come.
        Got::Nothing if conn.has(flag::DEAD) => Got::End,
        got => got,
    }
}

/// Returns the end of the stream after the peer's FIN on the VI. If this end had shut its receiving half, the peer's
/// later bytes went over TCP and reset the connection.
pub(super) fn at_fin(conn: &Conn, fd: i32) -> Got {
    match conn.has(flag::SHUT_RD).then(|| kernel_socket(fd)) {
        None | Some(Got::Nothing) => Got::End,
        Some(found) => found,
    }
}

/// Returns the kernel's result for a receive on a kernel socket that has ended.
fn kernel_socket(fd: i32) -> Got {
    let mut byte = [0u8; 1];
    match call::recv(fd, &mut byte, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
        Ok(_) => Got::End,
        Err(call::Errno::EAGAIN) => Got::Nothing,
        Err(e) => Got::Failed(errno(e)),
    }
}

/// Receives from TCP; `None` if the direction has moved to the VI.
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
            // At the switch the same call continues on the VI. The next call reports a fault there.
            let is_at_switch = n < out.len() && matches!(next_from(guard), Ok(Origin::Vi));
            let behind = |guard| receive_vi_and_behind(guard, fd, out.skip(n)).unwrap_or(0);
            Got::Bytes(if is_at_switch { n + behind(guard) } else { n })
        }
        nothing => return tcp_gave_nothing(guard, fd, nothing),
    };
    Some(got)
}
