//! What the receiver of our direction returns when it goes back to TCP: its sender puts that on TCP
//! before anything newer ([`crate::retreat`]).

use super::{anchor_has_ended, load, send_control, store, tell_reader, word};
use crate::conn::{Guard, flag};
use core::sync::atomic::Ordering;
use sovia_proto::packet::Kind;
use sovia_proto::path::{REFUSED, Tx};
use sovia_sys::call;
use via_shm::endpoint::Bulk;

/// How long a retreat waits for a peer that lives but does not answer, before a relay waits in its place.
pub(crate) const PATIENCE_NS: u64 = 2_000_000_000;
/// Pause while returned bytes wait for room on TCP.
pub(crate) const PUMP_NS: u64 = 2_000_000;
/// More than this is not returned but relayed: TCP's buffers may not take it before the new program
/// reads, and the peer may be dead by then.
pub(crate) const RETURN_MAX: usize = 1 << 20;
/// More than this is not returned in any case.
pub(crate) const RETURN_ROOM: usize = via_shm::layout::AREA;

/// Where so many returned bytes are put: at the end, out of the way of messages that are being written or
/// read in their places ([`crate::loan`]). What was gathered there has been read.
pub(crate) fn return_at(len: usize) -> usize {
    Bulk::LEN - len.clamp(RETURN_MAX, Bulk::LEN)
}
const _: () = assert!(Bulk::LEN - RETURN_ROOM >= via_shm::pool::POOL as usize);

/// The receiver wants our sending direction back: ends its part on the VI, and holds new bytes
/// back until the unread ones have been returned.
pub(crate) fn recalled(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if conn.tx() != Tx::Vi || guard.closing.fin_sent {
        return;
    }
    // First: a relative that goes on where this process has died says it again, which is read by no one.
    send_control(guard, Kind::ToTcp);
    conn.set(flag::RECALLED);
    conn.set_tx(Tx::Back);
    tell_reader(guard);
}

/// What the receiver has returned.
enum Returned {
    /// It has not said yet.
    NotYet,
    /// That many bytes.
    Bytes(usize),
    /// We have refused to take anything.
    Refused,
}

fn returned(guard: &Guard<'_>) -> Returned {
    match load(&guard.endpoint_ref().tx.direction().path, word::RETURNED) {
        0 => Returned::NotYet,
        REFUSED => Returned::Refused,
        word => Returned::Bytes(((word - 1) as usize).min(Bulk::LEN)),
    }
}

/// Whether sends must wait for returned bytes to go first; moves those if they are there.
pub(crate) fn holds_back(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if !conn.has(flag::RECALLED) || conn.has(flag::PUMPED) {
        return false;
    }
    match returned(guard) {
        // A receiver that has died or left meanwhile never will. One that has only ended what it sends will.
        Returned::NotYet => !conn.has(flag::DEAD) && !has_left(guard, fd),
        Returned::Refused => {
            conn.set(flag::PUMPED);
            false
        }
        Returned::Bytes(len) => !pump(guard, fd, len),
    }
}

/// Whether the receiver has left the direction, or TCP has no connection any more.
fn has_left(guard: &Guard<'_>, fd: i32) -> bool {
    load(&guard.endpoint_ref().tx.direction().path, word::GRANT) == word::LEFT
        || call::tcp_state(fd).is_none_or(call::TcpState::is_closed)
}

/// Puts returned bytes on TCP; true when all are there. Apart, for its stack is not that of every send.
#[cold]
#[inline(never)]
fn pump(guard: &mut Guard<'_>, fd: i32, len: usize) -> bool {
    let conn = guard.conn;
    let bulk = guard.endpoint_ref().tx.bulk();
    let mut part = [0u8; 1 << 10];
    while (guard.pumped as usize) < len {
        let at = guard.pumped as usize;
        let n = (len - at).min(part.len());
        bulk.read(return_at(len) + at, &mut part[..n]);
        match call::send(fd, &part[..n], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(sent) => guard.pumped += sent as u32,
            Err(call::Errno::EINTR) => {}
            Err(call::Errno::EAGAIN) => return false,
            // The connection is gone; so are its bytes, as with TCP. The error is the program's.
            Err(error) => {
                if error != call::Errno::EPIPE {
                    conn.keep_error(crate::errno(error));
                }
                conn.set(flag::PUMPED);
                return true;
            }
        }
    }
    conn.set(flag::PUMPED);
    store(&guard.endpoint_ref().tx.direction().path, word::PUMPED, 1);
    tell_reader(guard);
    true
}

/// This end is about to leave the direction (FIN, close, its own retreat): says that it will put nothing
/// on TCP, or puts there what it has been asked for. Whether returned bytes still wait for room there.
///
/// The receiver keeps a copy of them until all have come, and takes the rest from that if TCP ends before.
pub(crate) fn refuse_or_pump(guard: &mut Guard<'_>, fd: i32) -> bool {
    let path = &guard.endpoint_ref().tx.direction().path;
    let word = &path.0[word::RETURNED];
    if word.compare_exchange(0, REFUSED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        guard.conn.set(flag::PUMPED);
        return false;
    }
    holds_back(guard, fd) && !anchor_has_ended(fd)
}
