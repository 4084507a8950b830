//! Finds the position at which a direction's bytes on TCP end. This is the sender's switch to the VI, or the end of
//! TCP if the peer closed or died earlier.

use super::entering::{Origin, next_from};
use super::failover::BringResult;
use super::kernel_socket::kernel_socket_has_ended;
use super::take::receive_vi;
use super::{Fault, Got, ending, failed, failover, failure, rx, uncounted, word};
use crate::conn::{Guard, flag};
use crate::errno;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;
use sovia_proto::path::{self, Rx};
use sovia_ring::endpoint::Bulk;
use sovia_sys::call;

/// Returns the number of bytes that a receive may read from TCP. If no bytes may be read, breaks with the receive's
/// result. If the direction has moved to the VI, breaks with `None`.
pub(super) fn limit_on_tcp(guard: &mut Guard<'_>, fd: i32) -> ControlFlow<Option<Got>, usize> {
    let conn = guard.conn;
    match failover::bring(guard, fd) {
        BringResult::Next => {}
        BringResult::Nothing if conn.has(flag::SHUT_RD) => {
            return ControlFlow::Break(Some(Got::End));
        }
        BringResult::Nothing => return ControlFlow::Break(Some(Got::Nothing)),
        BringResult::Over => return ControlFlow::Break(Some(failure(conn, true))),
    }
    ControlFlow::Break(match next_from(guard) {
        Ok(Origin::Tcp { limit, .. }) => return ControlFlow::Continue(limit),
        Ok(Origin::Vi) => None,
        Ok(Origin::Nowhere) if conn.has(flag::SHUT_RD) => Some(Got::End),
        Ok(Origin::Nowhere) => Some(Got::Nothing),
        Err(fault) => Some(Got::Failed(failed(conn, fd, fault))),
    })
}

/// Returns the result of a receive or a peek that got no bytes from the kernel. `nothing` is the kernel's result:
/// end of file, EAGAIN or an error.
///
/// Returns `None` if the direction has moved to the VI. The peer may have switched, and even closed, after this end
/// loaded the switch word. Then bytes on the VI come before the end of the stream.
pub(super) fn tcp_gave_nothing(
    guard: &mut Guard<'_>,
    fd: i32,
    nothing: call::Result<usize>,
) -> Option<Got> {
    let conn = guard.conn;
    let from = match nothing {
        Err(error) if !is_of_connection(error) => next_from(guard),
        _ => next_after_the_end(guard, fd),
    };
    if let (Ok(Origin::Vi | Origin::Nowhere), Err(error)) = (&from, nothing)
        && is_of_connection(error)
    {
        // The kernel reports the error only once, and the peer's bytes on the VI come before it.
        conn.withhold_error(errno(error));
        conn.set(flag::KERNEL_SOCKET);
    }
    Some(match (from, nothing) {
        (Ok(Origin::Vi), _) => return None,
        (Err(fault), _) => Got::Failed(failed(conn, fd, fault)),
        (Ok(Origin::Nowhere), _) | (_, Err(call::Errno::EAGAIN)) => Got::Nothing,
        (_, Ok(_)) if failover::may_be_cut_off(guard) && kernel_socket_has_ended(fd) => {
            failover::lost(guard, fd, libc::ECONNRESET);
            failure(conn, true)
        }
        (_, Ok(_)) => {
            // If the peer left bytes of this end unread on the VI, the kernel reports no reset. `has_gone` then
            // stores the error.
            ending::has_gone(guard, fd);
            ending::receive_error(conn).map_or(Got::End, Got::Failed)
        }
        (_, Err(e)) => {
            if is_of_connection(e) && kernel_socket_has_ended(fd) {
                ending::end_by_error(conn);
            }
            Got::Failed(errno(e))
        }
    })
}

/// Returns true if an error is the end of the connection, and not of one call.
fn is_of_connection(error: call::Errno) -> bool {
    use call::Errno;
    !matches!(error, Errno::EAGAIN | Errno::EINTR | Errno::EBADF | Errno::ENOTSOCK | Errno::EFAULT)
}

/// Returns the source of the next bytes after TCP has ended. Returns `Nowhere` while the peer's last words on the
/// VI may still arrive.
#[cold]
fn next_after_the_end(guard: &mut Guard<'_>, fd: i32) -> Result<Origin, Fault> {
    let from = next_from(guard)?;
    if matches!(from, Origin::Tcp { shows_end: false, .. }) {
        return Ok(Origin::Nowhere);
    }
    guard.conn.set(flag::KERNEL_SOCKET);
    let from = rescue(guard, fd, from)?;
    up_to_the_switch(guard, fd, from)
}

/// Moves the direction back to the VI if TCP has ended before the sender had put all unread bytes of the VI on TCP.
/// The VI still has all unread bytes. Skips the bytes that have already arrived on TCP.
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
    // Does nothing if TCP only seems to have ended because this end has shut its receiving half.
    let Some(skip) = skip.filter(|_| kernel_socket_has_ended(fd)) else { return Ok(from) };
    let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
    if skip > Bulk::LEN {
        // The VI cannot hold `skip` bytes.
        return Err(Fault::Corrupt);
    }
    conn.set_rx(Rx::Vi);
    conn.clear(flag::RETURNING);
    // Small, because the program's stack may be small.
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

/// Corrects the count of bytes read on TCP before the switch. Once the FIN has arrived on TCP, all bytes before the
/// switch have arrived. If some seem to be missing, a thread has read them without counting them, and the kernel's
/// count is used. If bytes are missing even then, fails, because the program must not see an end of the stream.
fn up_to_the_switch(guard: &mut Guard<'_>, fd: i32, from: Origin) -> Result<Origin, Fault> {
    let by_fin = || call::tcp_state(fd).is_some_and(|tcp| tcp.peer_has_ended() && !tcp.is_closed());
    // Without a FIN of the peer, bytes may really be missing: a reset discards bytes, and so does this end's
    // shutdown of its receiving half.
    if !is_before_switch(from) || guard.conn.has(flag::SHUT_RD) || !by_fin() {
        return Ok(from);
    }
    uncounted::count_read(guard.conn, fd);
    let from = next_from(guard)?;
    if is_before_switch(from) { Err(Fault::Corrupt) } else { Ok(from) }
}

/// Returns true if the sender has switched, and this end has not read all bytes before the switch.
fn is_before_switch(from: Origin) -> bool {
    matches!(from, Origin::Tcp { limit: 0..usize::MAX, .. })
}
