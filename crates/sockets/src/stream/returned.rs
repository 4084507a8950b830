//! Settles what the sender of a direction owes to TCP after it has left the VI. The bytes that are unread on the VI go
//! to TCP before any newer byte ([`crate::fallback`]).

use super::undelivered::{Part, Said};
use super::{corrupt, failover, leaving, listeners, reflected, send_control, tell_reader, word};
use crate::conn::{Guard, HasEndpoint, flag};
use crate::kernel_sockets;
use core::sync::atomic::Ordering;
use sovia_proto::packet::Kind;
use sovia_proto::path::{self, CANCELLED, Grant, Owed, REFUSED, Tx};
use sovia_sys::call;
use via_shm::Corrupt;

/// Pause while bytes wait for room on TCP, in nanoseconds.
pub(crate) const DRAIN_NS: u64 = 2_000_000;

/// Ends this end's part on the VI, because the receiver has revoked the direction. New bytes wait until the unread ones
/// are on TCP.
pub(super) fn revoked(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if conn.tx() == Tx::Vi && !guard.closing.fin_sent {
        if reflected::is_reflected(guard) {
            // The receiver may not know of the switch yet.
            let _ = leaving::leave_sending(guard);
        } else {
            end_part(guard);
        }
    }
}

/// Ends this end's part on the VI, for a receiver that has entered the VI.
pub(super) fn end_part(guard: &mut Guard<'_>) {
    // Set first: if the process dies here, a forked relative repeats all steps. A packet that is sent twice is read
    // once.
    guard.conn.set(flag::LEFT_VI);
    send_control(guard, Kind::ToTcp);
    guard.conn.set_tx(Tx::Back);
    tell_reader(guard);
}

/// Obligation that this end must meet before it may put newer bytes on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Debt {
    /// None.
    None,
    /// The receiver reads the unread bytes on the VI, and may still ask for them.
    Unasked,
    /// This end must wait for the receiver's answer, or for room on TCP.
    Waits,
}

/// Returns what this end owes. Puts as many owed bytes on TCP as there is room for.
pub(crate) fn debt(guard: &mut Guard<'_>, fd: i32) -> Debt {
    let conn = guard.conn;
    if !conn.has(flag::LEFT_VI) || conn.has(flag::DRAINED | flag::CORRUPT) {
        return Debt::None;
    }
    if failover::is_on(guard) {
        return pay(guard, fd, failover::said(guard), word::DRAINED, None);
    }
    let path = &guard.endpoint_ref().tx.direction().path;
    if path.load(word::SWITCH) == CANCELLED {
        return pay(guard, fd, Said::BySender, word::TAKEN, None);
    }
    let grant = Grant::from_word(path.load(word::GRANT));
    match path::owed(grant, path.load(word::RETURNED)) {
        Owed::Refuse | Owed::Wait if has_all_been_taken(guard) => {
            conn.set(flag::DRAINED);
            Debt::None
        }
        Owed::Refuse => Debt::Unasked,
        // A receiver that has died or left never answers. A receiver that has only ended its sending half does.
        Owed::Wait if !conn.has(flag::DEAD | flag::GONE) && !has_left(guard, fd) => Debt::Waits,
        Owed::Wait | Owed::Nothing => {
            conn.set(flag::DRAINED);
            Debt::None
        }
        Owed::Drain(bytes) => pay(guard, fd, Said::ByReceiver, word::DRAINED, Some(bytes)),
    }
}

/// Returns true if the receiver has taken everything that this end has sent on the VI. Then the receiver has nothing to
/// return. Newer bytes may go on TCP before the receiver says so, because it reads ToTcp before it reads TCP.
fn has_all_been_taken(guard: &Guard<'_>) -> bool {
    let taken = &guard.endpoint_ref().tx.direction().reader;
    !reflected::is_reflected(guard)
        && !guard.own.uncounted
        && guard.gatherer.tail == taken.load(word::HEAD)
        && guard.bytes_sent == taken.load(word::TAKEN_BYTES) as u32
}

/// Puts the unread bytes of the VI on TCP. When all are there, publishes this in the word `done`.
#[cold]
fn pay(guard: &mut Guard<'_>, fd: i32, said: Said, done: usize, bytes: Option<u64>) -> Debt {
    let conn = guard.conn;
    match drain(guard, fd, said, bytes) {
        Ok(true) => {
            guard.endpoint_ref().tx.direction().path.store(done, 1);
            conn.set(flag::DRAINED);
            tell_reader(guard);
            failover::has_paid(guard, fd);
            // Sends may continue now, also those of other threads.
            listeners::tell_all(guard);
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

/// Puts as many owed bytes on TCP as there is room for. Returns true when all are there. Not inlined, to keep the stack
/// frame of `send` small.
#[inline(never)]
fn drain(guard: &mut Guard<'_>, fd: i32, said: Said, bytes: Option<u64>) -> Result<bool, Corrupt> {
    let part = Part::of(guard, said)?;
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
            // The program has closed this number past every hook: another one may still be there.
            Err(call::Errno::EBADF | call::Errno::ENOTSOCK) => return Ok(false),
            // The connection is gone, and its bytes are lost, as with TCP. The program gets the error.
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

/// Repairs the state after the death of a thread. The thread may have been about to leave the VI, or may have put bytes
/// on TCP without counting them. The kernel has counted them.
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

/// Returns true if the receiver has left the direction, or if TCP has no connection any more.
fn has_left(guard: &Guard<'_>, fd: i32) -> bool {
    guard.endpoint_ref().tx.direction().path.load(word::GRANT) == word::LEFT
        || call::tcp_state(fd).is_some_and(call::TcpState::is_closed)
}

/// Returns true if sends must wait until unread bytes are on TCP. Puts these bytes there as far as there is room.
///
/// If the receiver has not asked for the bytes, this end refuses to return them: newer bytes are about to go on TCP.
/// During its own fallback this end does not refuse, because the receiver may be about to ask.
pub(crate) fn holds_back(guard: &mut Guard<'_>, fd: i32) -> bool {
    match debt(guard, fd) {
        Debt::None => false,
        Debt::Waits => true,
        Debt::Unasked if guard.conn.has(flag::FALLING_BACK) => true,
        Debt::Unasked => !refuse(guard) && debt(guard, fd) == Debt::Waits,
    }
}

/// Publishes that this end will put no unread bytes on TCP. Returns false if the receiver has just asked for them.
pub(crate) fn refuse(guard: &Guard<'_>) -> bool {
    let word = &guard.endpoint_ref().tx.direction().path.0[word::RETURNED];
    let refused = word.compare_exchange(0, REFUSED, Ordering::AcqRel, Ordering::Acquire);
    let is_refused = matches!(refused, Ok(_) | Err(REFUSED));
    if is_refused {
        guard.conn.set(flag::DRAINED);
    }
    is_refused
}

/// Prepares for this end to leave the direction (FIN, close). Refuses to return unread bytes, or puts the requested
/// ones on TCP. When TCP ends, the receiver finds on the VI the bytes for which TCP had no room.
pub(crate) fn refuse_or_drain(guard: &mut Guard<'_>, fd: i32) {
    debt(guard, fd);
    if !failover::is_on(guard) {
        refuse(guard);
    }
}
