//! Moves the bytes of a connection. The calling thread holds the connection's lock.
//!
//! No function here waits. [`receive`] and [`send`] do what the direction's present path allows at once. If nothing can
//! be done at once, [`crate::wait`] and [`crate::ops`] decide what happens next.
//!
//! - `packets`: the effect of a packet when it arrives; `hold`: packets that wait for the program;
//! - `transfer`: how the bytes of a packet are sent; `combine`: when the reader is notified of small messages;
//! - `entering`, `leaving`: the steps from TCP to the VI and back;
//! - `kernel_socket`: the state of the kernel socket; `returned`: the sender's part of a fallback;
//! - `reflected`: differences if a NIC in software connects the two ends;
//! - `failover`: the move to TCP after the death of a NIC in software;
//! - `single`: the fast path for a message of one packet;
//! - `take`: removes bytes from the VI;
//! - `ending`: the peer's end, and its report to the program;
//! - `tcp_end`: the end of a direction's bytes on TCP;
//! - `state`: decides a call's result from the flags, the path and the peer's words;
//! - `undelivered`: unread bytes on a VI that the receiver leaves or has never entered;
//! - `look`, `peek`: the result that a call would have; `lend`: slots of the pools, lent to the program;
//! - `handled`: messages that a handler thread takes off the ring; `listeners`: threads and ready lists to notify;
//! - `unanswered`: a connector that has its VI before the answer to its request;
//! - `uncounted`: bytes on TCP that only the kernel has counted;
//! - `backlog`: the memory for bytes that the peer has not read;
//! - `audit`: compares this end's words in the segment with private copies.

pub(crate) mod audit;
pub(crate) mod backlog;
pub(crate) mod combine;
pub(crate) mod ending;
mod entering;
pub(crate) mod failover;
pub(crate) mod handled;
mod hold;
mod kernel_socket;
pub(crate) mod leaving;
mod lend;
pub(crate) mod listeners;
mod look;
mod packets;
mod peek;
mod receive;
pub(crate) mod reflected;
pub(crate) mod returned;
mod send;
pub(crate) mod single;
pub(crate) mod state;
mod take;
mod tcp_end;
mod transfer;
pub(crate) mod unanswered;
mod uncounted;
pub(crate) mod undelivered;

pub(crate) use ending::peer_has_ended;
pub(crate) use entering::grant;
pub(crate) use kernel_socket::kernel_socket_has_ended;
pub(crate) use lend::{
    Find, Place, borrow, commit, give_back, lend, lend_progress, packets_go_at_once, take_back,
};
pub use look::{Watch, readable, writable};
use packets::send_control;
pub use peek::{peek, receivable, unread};
pub use receive::receive;
pub(crate) use send::{Way, goes_over_vi, way};
pub use send::{finish, leave, send, shut};
pub use take::{is_ending, is_returning};
pub(crate) use via_shm::Corrupt;

use crate::Errno;
use crate::conn::{Conn, Guard, HasEndpoint, Locked, Protocol, flag};
use crate::pair::{self, Pair};
use crate::table;
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_proto::Violation;
use sovia_proto::flow::Parameters;
use sovia_proto::packet::Immediate;
use sovia_proto::path::{CANCELLED, Rx, Tx};
use sovia_proto::word;
use sovia_signal::access::BadAddress;
use sovia_sys::call;
use via_shm::Endpoint;
use via_shm::endpoint::{Area, Unsent};
use via_shm::layout::Direction;

/// Unread bytes in the overflow buffer at or below which the sender counts as having room again. Then waiting senders
/// are woken and pollers are notified.
const ROOM: u64 = (Area::LEN / 2) as u64;

/// Result of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// Number of bytes received.
    Bytes(usize),
    /// End of file.
    End,
    /// No bytes yet.
    Nothing,
    /// An error for the program.
    Failed(Errno),
}

/// Result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// Number of bytes accepted.
    Bytes(usize),
    /// No room now.
    Full,
    /// An error for the program.
    Failed(Errno),
    /// The caller must make the system call: the kernel decides the error, and raises SIGPIPE if one is due.
    AskKernel,
}

enum Fault {
    /// The segment is corrupt.
    Corrupt,
    /// The program's buffer lies partly in memory that is not mapped or not accessible.
    BadAddress,
}

impl From<BadAddress> for Fault {
    fn from(_: BadAddress) -> Fault {
        Fault::BadAddress
    }
}

impl From<Unsent> for Fault {
    fn from(unsent: Unsent) -> Fault {
        match unsent {
            Unsent::Corrupt(_) => Fault::Corrupt,
            Unsent::BadAddress => Fault::BadAddress,
        }
    }
}

impl From<Corrupt> for Fault {
    fn from(_: Corrupt) -> Fault {
        Fault::Corrupt
    }
}

impl From<Violation> for Fault {
    fn from(_: Violation) -> Fault {
        Fault::Corrupt
    }
}

/// Returns the error that the program gets for `fault`. Ends the connection if the segment is corrupt.
#[cold]
fn failed(conn: &Conn, fd: i32, fault: Fault) -> Errno {
    match fault {
        Fault::Corrupt => corrupt(conn, fd),
        Fault::BadAddress => libc::EFAULT,
    }
}

/// Ends a connection whose segment is corrupt, with an error at both ends. Other connections on the segment go on; the
/// segment is marked as suspect.
#[cold]
pub(crate) fn corrupt(conn: &Conn, fd: i32) -> Errno {
    if fails_for(conn, Reason::Corrupt) {
        if let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) {
            pair.suspect.store(true, Ordering::Relaxed);
        }
        let _ = call::shutdown(fd, libc::SHUT_RDWR);
    }
    libc::ECONNRESET
}

/// Like [`corrupt`], with a descriptor that this process has for the connection. Does nothing if there is no
/// descriptor.
#[cold]
fn corrupt_here(guard: &Guard<'_>) {
    if let Some(fd) = table::descriptor_of(guard.conn) {
        corrupt(guard.conn, fd);
    }
}

/// Ends a connection whose segment is sound, but some of whose bytes from the peer may be missing. The program gets
/// `error` once, as it would from the kernel. Returns false if the connection had already ended.
#[cold]
fn broken_off(conn: &Conn, fd: i32, error: Errno) -> bool {
    if !fails_for(conn, Reason::BrokenOff) {
        return false;
    }
    conn.ends_for(Reason::BrokenOff);
    conn.keep_error(error);
    // The peer gets a reset. A FIN would claim that the peer has all bytes.
    if call::disconnect(fd).is_err() {
        let _ = call::shutdown(fd, libc::SHUT_RDWR);
    }
    // The kernel keeps an error of its own after a disconnect. This call discards that error.
    let _ = call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR);
    true
}

/// Marks the connection as failed. Returns false if it was already marked.
fn fails_for(conn: &Conn, reason: Reason) -> bool {
    let is_first = conn.set(flag::CORRUPT) & flag::CORRUPT == 0;
    if is_first {
        conn.stays(reason);
        crate::stats::reason(reason);
    }
    is_first
}

/// Returns the result of a receive on a connection that is corrupt or broken off. `takes`: the program sees the result,
/// so an error that is reported once is consumed.
#[cold]
fn failure(conn: &Conn, takes: bool) -> Got {
    let error = if takes { conn.take_error() } else { conn.error() };
    match error {
        Some(error) => Got::Failed(error),
        None if conn.stays_for() == Some(Reason::BrokenOff) => Got::End,
        None => Got::Failed(libc::ECONNRESET),
    }
}

/// Gives a connection its end of a VI of `pair`. Nothing has been sent on the VI.
///
/// # Safety
/// The pair keeps its segment mapped until this process has left the VI ([`Pair::occupy`]).
pub(crate) unsafe fn begin<'a>(
    locked: Locked<'a>,
    pair: &Pair,
    vi: u32,
    flow: Parameters,
    protocol: Protocol,
) -> Guard<'a> {
    // SAFETY: by this function's contract the segment stays mapped until this process has left the VI. Forked processes
    // inherit the mapping with the connection. The lock serialises every use of the endpoint's two halves.
    let mut guard =
        unsafe { locked.attach(Endpoint::new(&pair.segment, vi, pair.side), flow, protocol) };
    guard.conn.expect_at(guard.endpoint_ref().rx.next_at());
    if pair.other_user.is_some() {
        guard.endpoint_ref().tx.faces_other_user();
    }
    backlog::begin(&mut guard);
    say_window(&guard, flow.window);
    guard
}

/// Registers the function that repairs connections after the death of a thread that held the lock.
pub(crate) fn start() {
    crate::conn::repair_by(repair);
}

/// Repairs a body whose last owner died while changing it.
pub(crate) fn repair(guard: &mut Guard<'_>) {
    // Counts ordered packets that were published but not counted: coalesced bytes go after them.
    let before = guard.endpoint_ref().tx.sent();
    guard.endpoint().tx.repair();
    guard.gatherer.packets = (guard.counted >> 32) as u32;
    let mut ordered = 0;
    for n in guard.counted as u32..guard.endpoint_ref().tx.sent().max(before) {
        let kind =
            guard.endpoint_ref().tx.immediate(n).and_then(|bits| Immediate::decode(bits).ok());
        ordered += u32::from(kind.is_some_and(|packet| packet.kind.is_ordered()));
    }
    guard.count_sent(ordered);
    // The sender publishes coalesced bytes step by step, and notes each step only after its publication.
    let tail = tx(guard).writer.load(word::TAIL);
    if tail.wrapping_sub(guard.gatherer.tail) <= u64::from(guard.protocol.chunk) {
        guard.gatherer.tail = tail;
    }
    packets::finish_taking(guard);
    audit::repair(guard);
    // After a cancelled switch, all bytes on the VI go to TCP.
    if guard.conn.tx() == Tx::Vi && tx(guard).path.load(word::SWITCH) == CANCELLED {
        guard.conn.set(flag::LEFT_VI);
        guard.conn.set_tx(Tx::Back);
    }
    if guard.conn.rest.find().is_some() {
        // A keeper has the unread bytes ([`crate::rest`]).
        guard.conn.clear(flag::RETURNING);
        guard.conn.set_rx(Rx::Back);
    }
    // The dead owner may have sent or taken bytes without notifying the peer.
    tell_reader(guard);
    tell_writer(guard);
    undelivered::repair(guard);
    // The dead owner may have moved bytes from or to TCP without counting them. The kernel has counted them.
    let conn = guard.conn;
    if let Some(fd) = crate::table::descriptor_of(conn) {
        returned::repair(guard, fd);
        failover::repair(guard, fd);
        if conn.rx() == Rx::Granted || conn.has(flag::RETURNING) {
            uncounted::count_read(conn, fd);
        }
    }
}

/// Returns the control block of the direction in which this end sends.
fn tx<'g>(guard: &'g Guard<'_>) -> &'g Direction {
    guard.endpoint_ref().tx.direction()
}

/// Returns the control block of the direction in which this end receives.
fn rx<'g>(guard: &'g Guard<'_>) -> &'g Direction {
    guard.endpoint_ref().rx.direction()
}

/// Publishes the number of packets that this end may leave unacknowledged.
fn say_window(guard: &Guard<'_>, window: u16) {
    tx(guard).writer.store(word::WINDOW, u64::from(window));
}

/// Applies new buffer sizes: the program has changed how many bytes may lie unsent or unread.
pub(crate) fn rebound(guard: &mut Guard<'_>) {
    backlog::bound(guard);
    backlog::say_holds(guard);
    // There may be room now, for senders of this end and for the peer's.
    listeners::tell_all(guard);
    tell_writer(guard);
}

/// Notifies the peer's reader of an event.
#[inline]
pub(crate) fn tell_reader(guard: &Guard<'_>) {
    guard.endpoint_ref().tx.news(|ready_lists| pair::notify(guard, ready_lists));
}

/// Notifies the peer's writer of room, or of a change of path.
#[inline]
pub(crate) fn tell_writer(guard: &Guard<'_>) {
    guard.endpoint_ref().rx.room(|ready_lists| pair::notify(guard, ready_lists));
}

/// Wakes every thread of this family that waits for the connection, which has just left its VI.
pub(crate) fn wake_all(guard: &Guard<'_>) {
    listeners::wake_sleepers(guard.conn, guard.endpoint_ref(), true);
}
