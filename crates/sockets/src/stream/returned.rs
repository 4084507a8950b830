//! Puts unread bytes of the VI on TCP after the sender of a direction has left the VI. These bytes go on TCP before
//! any newer byte ([`crate::fallback`]).

use super::undelivered::{ListSource, Part};
use super::{corrupt, failover, leaving, listeners, notify_reader, reflected, send_control, word};
use crate::conn::{Guard, HasEndpoint, flag};
use crate::kernel_sockets;
use core::sync::atomic::Ordering;
use sovia_proto::packet::Kind;
use sovia_proto::path::{self, CANCELLED, Grant, Owed, REFUSED, Tx};
use sovia_ring::Corrupt;
use sovia_sys::call;

/// Time between two attempts to put unread bytes on TCP while TCP has no room, in nanoseconds.
pub(crate) const DRAIN_NS: u64 = 2_000_000;

/// Stops sending on the VI. Called after the receiver has revoked the direction. The program's new bytes must wait
/// until the unread bytes of the VI are on TCP.
pub(super) fn revoked(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if conn.tx() == Tx::Vi && !guard.closing.fin_sent {
        if reflected::is_reflected(guard) {
            // The receiver may have revoked the direction before it knew of this end's switch, so the switch may be
            // cancelled.
            let _ = leaving::leave_sending(guard);
        } else {
            end_part(guard);
        }
    }
}

/// Stops sending on the VI with a last packet, ToTcp. Requires that the receiver has claimed the switch.
pub(super) fn end_part(guard: &mut Guard<'_>) {
    // Set first: if the process dies after this line, a forked relative repeats all steps. A second ToTcp packet
    // does no harm, because the receiver reads only the first one.
    guard.conn.set(flag::LEFT_VI);
    send_control(guard, Kind::ToTcp);
    guard.conn.set_tx(Tx::Back);
    notify_reader(guard);
}

/// Unread bytes of the VI that this end must put on TCP before newer bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Debt {
    /// There are none, so newer bytes may go on TCP.
    None,
    /// The receiver is reading the unread bytes on the VI, but may still ask this end to put them on TCP.
    Unasked,
    /// Newer bytes must wait until the receiver has answered, or until TCP has room for all unread bytes.
    Waits,
}

/// Puts unread bytes of the VI on TCP, if the receiver has asked for this, as far as TCP has room. Returns whether
/// newer bytes may follow.
pub(crate) fn debt(guard: &mut Guard<'_>, fd: i32) -> Debt {
    let conn = guard.conn;
    if !conn.has(flag::LEFT_VI) || conn.has(flag::DRAINED | flag::CORRUPT) {
        return Debt::None;
    }
    if failover::is_on(guard) {
        return pay(guard, fd, failover::list_source(guard), word::DRAINED, None);
    }
    let path = &guard.endpoint_ref().tx.direction().path;
    if path.load(word::SWITCH) == CANCELLED {
        return pay(guard, fd, ListSource::BySender, word::TAKEN, None);
    }
    let grant = Grant::from_word(path.load(word::GRANT));
    match path::owed(grant, path.load(word::RETURNED)) {
        Owed::Refuse | Owed::Wait if has_all_been_taken(guard) => {
            conn.set(flag::DRAINED);
            Debt::None
        }
        Owed::Refuse => Debt::Unasked,
        // Waits for the answer of a receiver that still exists. A receiver that has died or closed never answers.
        Owed::Wait if !conn.has(flag::DEAD | flag::GONE) && !has_left(guard, fd) => Debt::Waits,
        Owed::Wait | Owed::Nothing => {
            conn.set(flag::DRAINED);
            Debt::None
        }
        Owed::Drain(bytes) => pay(guard, fd, ListSource::ByReceiver, word::DRAINED, Some(bytes)),
    }
}

/// Returns true if the receiver has read all bytes that this end has sent on the VI. Then newer bytes may go on TCP
/// at once, without the receiver's answer. The order is kept, because the receiver reads ToTcp on the VI before it
/// reads TCP.
fn has_all_been_taken(guard: &Guard<'_>) -> bool {
    let taken = &guard.endpoint_ref().tx.direction().reader;
    !reflected::is_reflected(guard)
        && !guard.own.uncounted
        && guard.coalescer.tail == taken.load(word::HEAD)
        && guard.bytes_sent == taken.load(word::TAKEN_BYTES) as u32
}

/// Puts unread bytes of the VI on TCP, as far as TCP has room. Once all of them are on TCP, sets the word number
/// `done` in the segment. `list_source` selects the source of the list of unread bytes.
#[cold]
fn pay(
    guard: &mut Guard<'_>,
    fd: i32,
    list_source: ListSource,
    done: usize,
    bytes: Option<u64>,
) -> Debt {
    let conn = guard.conn;
    match drain(guard, fd, list_source, bytes) {
        Ok(true) => {
            guard.endpoint_ref().tx.direction().path.store(done, 1);
            conn.set(flag::DRAINED);
            notify_reader(guard);
            failover::has_paid(guard, fd);
            // Wakes other threads whose sends waited for this.
            listeners::notify_all(guard);
            Debt::None
        }
        Ok(false) if conn.has(flag::DRAINED) => Debt::None,
        Ok(false) => Debt::Waits,
        Err(Corrupt(_)) => {
            corrupt(conn, fd);
            conn.set(flag::DRAINED);
            Debt::None
        }
    }
}

/// Puts unread bytes of the VI on TCP, as far as TCP has room. Returns true once all unread bytes are on TCP. Not
/// inlined, to keep the stack frame of `send` small.
#[inline(never)]
fn drain(
    guard: &mut Guard<'_>,
    fd: i32,
    list_source: ListSource,
    bytes: Option<u64>,
) -> Result<bool, Corrupt> {
    let part = Part::of(guard, list_source)?;
    let len = part.len(guard)?;
    if bytes.is_some_and(|bytes| bytes != len) {
        return Err(Corrupt("undelivered bytes differ from those returned"));
    }
    if guard.drained == 0 {
        guard.drained_from = call::tcp_bytes_written(fd).map_or(0, |written| written + 1);
    }
    let mut piece = [0u8; 1 << 10];
    while u64::from(guard.drained) < len {
        let n = part.copy(guard, guard.drained.into(), &mut piece)?;
        match call::send(fd, &piece[..n], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(sent) => guard.drained += sent as u32,
            Err(call::Errno::EINTR) => {}
            Err(call::Errno::EAGAIN) => {
                kernel_sockets::watch_room(guard, fd);
                return Ok(false);
            }
            // The program has closed this number past every hook. Another number of the connection may still be open.
            Err(call::Errno::EBADF | call::Errno::ENOTSOCK) => return Ok(false),
            // The connection has failed, and its unsent bytes are lost, as on TCP. The program's next call returns
            // the error.
            Err(error) => {
                if error != call::Errno::EPIPE {
                    guard.conn.keep_error(crate::errno(error));
                }
                guard.conn.set(flag::DRAINED);
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Repairs the state after the death of a thread. If the thread was about to leave the VI, completes this step. If
/// the thread put unread bytes on TCP without counting them, uses the kernel's count.
pub(super) fn repair(guard: &mut Guard<'_>, fd: i32) {
    if guard.conn.has(flag::LEFT_VI) && guard.conn.tx() == Tx::Vi {
        end_part(guard);
    }
    let is_draining = guard.conn.has(flag::LEFT_VI) && !guard.conn.has(flag::DRAINED);
    if is_draining
        && let Some(from) = guard.drained_from.checked_sub(1)
        && let Ok(written) = call::tcp_bytes_written(fd)
    {
        guard.drained = guard.drained.max(written.saturating_sub(from) as u32);
    }
}

/// Returns true if the receiver has closed the connection, or if the kernel socket is closed.
fn has_left(guard: &Guard<'_>, fd: i32) -> bool {
    guard.endpoint_ref().tx.direction().path.load(word::GRANT) == word::LEFT
        || call::tcp_state(fd).is_some_and(call::TcpState::is_closed)
}

/// Returns true if the program's sends must wait until unread bytes of the VI are on TCP. Also puts unread bytes on
/// TCP, as far as TCP has room.
///
/// If the receiver has not asked for the unread bytes, this end refuses to put them on TCP: newer bytes are about
/// to go there. During its own fallback this end does not refuse, because the receiver may be about to ask.
pub(crate) fn holds_back(guard: &mut Guard<'_>, fd: i32) -> bool {
    match debt(guard, fd) {
        Debt::None => false,
        Debt::Waits => true,
        Debt::Unasked if guard.conn.has(flag::FALLING_BACK) => true,
        Debt::Unasked => !refuse(guard) && debt(guard, fd) == Debt::Waits,
    }
}

/// Publishes that this end will put no unread bytes of the VI on TCP. Returns false if the receiver has already
/// asked for these bytes.
pub(crate) fn refuse(guard: &Guard<'_>) -> bool {
    let word = &guard.endpoint_ref().tx.direction().path.0[word::RETURNED];
    let refused = word.compare_exchange(0, REFUSED, Ordering::AcqRel, Ordering::Acquire);
    let is_refused = matches!(refused, Ok(_) | Err(REFUSED));
    if is_refused {
        guard.conn.set(flag::DRAINED);
    }
    is_refused
}

/// Puts unread bytes of the VI on TCP if the receiver has asked for them, and otherwise refuses. Called before this
/// end sends a FIN or closes. If TCP has no room for all unread bytes, the receiver reads the rest on the VI after
/// TCP has ended.
pub(crate) fn refuse_or_drain(guard: &mut Guard<'_>, fd: i32) {
    debt(guard, fd);
    if !failover::is_on(guard) {
        refuse(guard);
    }
}
