//! Where a direction's bytes on TCP end: at the switch to the VI, or where the peer has died or ended before it.

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

/// Bytes that may be read of TCP; else what a look at TCP has found, with `None` if the direction has gone over to
/// the VI.
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

/// What a receive, or a look, comes to that the kernel has answered with `nothing`: no bytes, or an error. `None` if the
/// direction has gone over to the VI: the switch may have been made, and the connection even closed, after it was
/// looked at, and what is on the VI comes first.
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
            // Of bytes that it left unread on the VI the kernel knows nothing.
            ending::has_gone(guard, fd);
            ending::receive_error(conn).map_or(Got::End, Got::Failed)
        }
        (_, Err(e)) => Got::Failed(errno(e)),
    })
}

/// Where the bytes come from after TCP's end. `Nowhere` while the peer's last words are on their way still.
#[cold]
fn next_after_the_end(guard: &mut Guard<'_>, fd: i32) -> Result<Origin, Fault> {
    // First: the switch that is seen after it is the sender's last word.
    let is_all = reflected::tcp_tells_the_end(guard);
    let from = next_from(guard)?;
    if !is_all && matches!(from, Origin::Tcp(_)) {
        return Ok(Origin::Nowhere);
    }
    guard.conn.set(flag::KERNEL_SOCKET);
    let from = rescue(guard, fd, from)?;
    up_to_the_switch(guard, fd, from)
}

/// TCP has ended before the sender had put all on it that lay unread on the VI: the rest of that is there still,
/// after what made it to TCP.
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
    // This end may have shut its receiving half, and nothing more.
    let Some(skip) = skip.filter(|_| kernel_socket_has_ended(fd)) else { return Ok(from) };
    let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
    if skip > Bulk::LEN {
        // So many do not lie there.
        return Err(Fault::Corrupt);
    }
    conn.set_rx(Rx::Vi);
    conn.clear(flag::RETURNING);
    // On the program's stack.
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

/// All that the sender had put on TCP before it switched has come by its end: what is missing has been read and not
/// counted. More than that cannot be missing, and must not look like the end of the stream.
fn up_to_the_switch(guard: &mut Guard<'_>, fd: i32, from: Origin) -> Result<Origin, Fault> {
    let by_fin = || call::tcp_state(fd).is_some_and(|tcp| tcp.peer_has_ended() && !tcp.is_closed());
    // This end may have shut its receiving half itself, and a reset takes away what was there.
    if !is_before_switch(from) || guard.conn.has(flag::SHUT_RD) || !by_fin() {
        return Ok(from);
    }
    uncounted::count_read(guard.conn, fd);
    let from = next_from(guard)?;
    if is_before_switch(from) { Err(Fault::Corrupt) } else { Ok(from) }
}

/// Whether there is a switch, and bytes before it that have not been read.
fn is_before_switch(from: Origin) -> bool {
    matches!(from, Origin::Tcp(limit) if limit != usize::MAX)
}
