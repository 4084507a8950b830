//! Finds the end of a direction's bytes on TCP: the switch to the VI, or an earlier end or death of the peer.

use super::entering::{Origin, next_from};
use super::failover::Brought;
use super::kernel_socket::kernel_socket_has_ended;
use super::take::receive_vi;
use super::{Fault, Got, ending, failed, failover, failure, reflected, rx, uncounted, word};
use crate::conn::{Guard, flag};
use crate::errno;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;
use sovia_proto::path::{self, Rx};
use sovia_sys::call;
use via_shm::endpoint::Bulk;

/// Returns the number of bytes that may be read from TCP. Breaks with the receive's result if none may be read, and
/// with `None` if the direction has moved to the VI.
pub(super) fn limit_on_tcp(guard: &mut Guard<'_>, fd: i32) -> ControlFlow<Option<Got>, usize> {
    let conn = guard.conn;
    match failover::bring(guard, fd) {
        Brought::Next => {}
        Brought::Nothing if conn.has(flag::SHUT_RD) => return ControlFlow::Break(Some(Got::End)),
        Brought::Nothing => return ControlFlow::Break(Some(Got::Nothing)),
        Brought::Over => return ControlFlow::Break(Some(failure(conn, true))),
    }
    ControlFlow::Break(match next_from(guard) {
        Ok(Origin::Tcp(limit)) => return ControlFlow::Continue(limit),
        Ok(Origin::Vi) => None,
        Ok(Origin::Nowhere) if conn.has(flag::SHUT_RD) => Some(Got::End),
        Ok(Origin::Nowhere) => Some(Got::Nothing),
        Err(fault) => Some(Got::Failed(failed(conn, fd, fault))),
    })
}

/// Returns the result of a receive or a peek to which the kernel has answered `nothing`: no bytes, or an error.
///
/// Returns `None` if the direction has moved to the VI. The peer may have switched, and even closed, after this end
/// looked at the switch. Then the bytes on the VI come first.
pub(super) fn tcp_gave_nothing(
    guard: &mut Guard<'_>,
    fd: i32,
    nothing: call::Result<usize>,
) -> Option<Got> {
    let conn = guard.conn;
    let from = match nothing {
        Err(call::Errno::EAGAIN) => next_from(guard),
        _ => next_after_the_end(guard, fd),
    };
    Some(match (from, nothing) {
        (Ok(Origin::Vi), _) => return None,
        (Err(fault), _) => Got::Failed(failed(conn, fd, fault)),
        (Ok(Origin::Nowhere), _) | (_, Err(call::Errno::EAGAIN)) => Got::Nothing,
        (_, Ok(_)) if failover::may_be_cut_off(guard) && kernel_socket_has_ended(fd) => {
            failover::lost(guard, fd, libc::ECONNRESET);
            failure(conn, true)
        }
        (_, Ok(_)) => {
            // The kernel does not know of bytes that the peer left unread on the VI.
            ending::has_gone(guard, fd);
            ending::receive_error(conn).map_or(Got::End, Got::Failed)
        }
        (_, Err(e)) => Got::Failed(errno(e)),
    })
}

/// Returns the source of bytes after the end of TCP: `Nowhere` while the peer's last words may still arrive.
#[cold]
fn next_after_the_end(guard: &mut Guard<'_>, fd: i32) -> Result<Origin, Fault> {
    // Loaded before the switch: if nothing more comes, the switch word that is loaded next is final.
    let is_all = reflected::tcp_tells_the_end(guard);
    let from = next_from(guard)?;
    if !is_all && matches!(from, Origin::Tcp(_)) {
        return Ok(Origin::Nowhere);
    }
    guard.conn.set(flag::KERNEL_SOCKET);
    let from = rescue(guard, fd, from)?;
    up_to_the_switch(guard, fd, from)
}

/// Returns to the VI if TCP has ended before the sender had put all unread bytes on it. The VI still has all of these
/// bytes, so this skips those that have arrived on TCP.
fn rescue(guard: &mut Guard<'_>, fd: i32, from: Origin) -> Result<Origin, Fault> {
    let path = &rx(guard).path;
    let conn = guard.conn;
    let skip = path::rescue(
        conn.rx(),
        path.load(word::SWITCH),
        path.load(word::TAKEN) != 0,
        if conn.has(flag::RETURNING) { path.load(word::RETURNED) } else { 0 },
        path.load(word::DRAINED) != 0,
        path.load(word::FROM),
        conn.rx_tcp.load(Ordering::Acquire),
    );
    // TCP may seem to have ended only because this end has shut its receiving half.
    let Some(skip) = skip.filter(|_| kernel_socket_has_ended(fd)) else { return Ok(from) };
    let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
    if skip > Bulk::LEN {
        // The VI cannot hold so many bytes.
        return Err(Fault::Corrupt);
    }
    conn.set_rx(Rx::Vi);
    conn.clear(flag::RETURNING);
    // Small, because the array lies on the program's stack.
    let mut scrap = [0u8; 512];
    while skip > 0 {
        let part = scrap.len().min(skip);
        match receive_vi(guard, (&mut scrap[..part]).into())? {
            0 => break,
            got => skip -= got,
        }
    }
    Ok(Origin::Vi)
}

/// Corrects the count of bytes that were read on TCP before the switch. When a FIN has come, all of the sender's
/// earlier bytes have come. So if bytes before the switch are missing, a thread has read them without counting them. If
/// the kernel's count does not explain the gap, the stream must not seem to end here.
fn up_to_the_switch(guard: &mut Guard<'_>, fd: i32, from: Origin) -> Result<Origin, Fault> {
    let by_fin = || call::tcp_state(fd).is_some_and(|tcp| tcp.peer_has_ended() && !tcp.is_closed());
    // A shutdown of this end's own receiving half looks like an end, and a reset discards bytes.
    if !is_before_switch(from) || guard.conn.has(flag::SHUT_RD) || !by_fin() {
        return Ok(from);
    }
    uncounted::count_read(guard.conn, fd);
    let from = next_from(guard)?;
    if is_before_switch(from) { Err(Fault::Corrupt) } else { Ok(from) }
}

/// Returns true if there is a switch, and bytes before it are unread.
fn is_before_switch(from: Origin) -> bool {
    matches!(from, Origin::Tcp(limit) if limit != usize::MAX)
}
