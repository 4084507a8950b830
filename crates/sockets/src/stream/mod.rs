//! Moves the bytes of a connection. The calling thread holds the connection's lock.
//!
//! No function here waits. [`receive`] and [`send`] move the bytes that can be moved at once on the direction's
//! present path, the VI or TCP. If no byte can be moved, [`crate::wait`] or [`crate::ops`] decides whether the call
//! waits.
//!
//! - `packets`: applies a packet when it arrives; `hold`: packets that wait for the program;
//! - `transfer`: sends the bytes of a packet; `combine`: delays the reader's notification of small messages;
//! - `entering`, `leaving`: the steps from TCP to the VI and back;
//! - `kernel_socket`: the state of the kernel socket; `returned`: the sender's part of a fallback;
//! - `reflected`: differences if a NIC in software connects the two ends;
//! - `failover`: the move to TCP after the death of a NIC in software;
//! - `single`: the fast path for a message of one packet;
//! - `take`: removes bytes from the VI;
//! - `ending`: detects that the peer has closed or died, and reports this to the program;
//! - `tcp_end`: finds the position at which a direction's bytes on TCP end;
//! - `state`: decides a call's result from the flags, the path and the peer's words;
//! - `undelivered`: unread bytes on a VI, after the receiver has left the VI or if the receiver never entered it;
//! - `look`, `peek`: find out what a receive or send would return; `lend`: lends slots of the pools to the program;
//! - `handler_queue`: messages that a handler thread takes off the ring; `listeners`: threads and ready lists to
//!   notify;
//! - `unanswered`: a connector that uses its VI before the acceptor has answered the request for the VI;
//! - `uncounted`: corrects counts of TCP bytes after a thread died before it counted its bytes;
//! - `backlog`: the memory for bytes that the peer has not read;
//! - `audit`: compares this end's words in the segment with private copies.

pub(crate) mod audit;
pub(crate) mod backlog;
pub(crate) mod combine;
pub(crate) mod ending;
mod entering;
pub(crate) mod failover;
pub(crate) mod handler_queue;
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
    BorrowResult, LendResult, borrow, commit, give_back, lend, lend_progress, packet_room,
    packets_go_at_once, take_back,
};
pub use look::{WatchedWords, readable, writable};
use packets::send_control;
pub use peek::{peek, receivable, unread};
pub use receive::receive;
pub(crate) use send::{SendPath, goes_over_vi, way};
pub use send::{finish, leave, send, shut};
pub(crate) use sovia_ring::Corrupt;
pub use take::{is_ending, is_returning};

use crate::Errno;
use crate::conn::{Conn, Guard, HasEndpoint, Locked, Protocol, flag};
use crate::pair::{self, Pair};
use crate::table;
use core::sync::atomic::{Ordering, fence};
use sovia_control::Reason;
use sovia_proto::Violation;
use sovia_proto::flow::Parameters;
use sovia_proto::packet::Immediate;
use sovia_proto::path::{CANCELLED, Rx, Tx};
use sovia_proto::word;
use sovia_ring::Endpoint;
use sovia_ring::endpoint::{OverflowBuffer, Unsent};
use sovia_ring::layout::Direction;
use sovia_signal::access::BadAddress;
use sovia_sys::call;

/// Number of unread bytes in the overflow buffer. When no more bytes than this are unread, waiting senders are
/// woken, and `poll` reports the socket as writable.
const ROOM: u64 = (OverflowBuffer::LEN / 2) as u64;

/// Result of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// Number of bytes received.
    Bytes(usize),
    /// End of file.
    End,
    /// No bytes have arrived yet.
    Nothing,
    /// The call fails with this error.
    Failed(Errno),
}

/// Result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// Number of bytes accepted.
    Bytes(usize),
    /// There is no room for any byte now.
    Full,
    /// The call fails with this error.
    Failed(Errno),
    /// The caller must make the system call. The kernel then sends the bytes, or returns the error and raises
    /// SIGPIPE.
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

/// Returns the errno of `fault` for the program. If the segment is corrupt, also ends the connection.
#[cold]
fn failed(conn: &Conn, fd: i32, fault: Fault) -> Errno {
    match fault {
        Fault::Corrupt => corrupt(conn, fd),
        Fault::BadAddress => libc::EFAULT,
    }
}

/// Ends a connection whose segment is corrupt, with an error at both ends. Marks the segment as suspect, but does
/// not end other connections on the segment.
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

/// Like [`corrupt`], but finds the connection's descriptor in this process. Does nothing if this process has no
/// descriptor of the connection.
#[cold]
fn corrupt_here(guard: &Guard<'_>) {
    if let Some(fd) = table::descriptor_of(guard.conn) {
        corrupt(guard.conn, fd);
    }
}

/// Ends a connection if bytes from the peer may be missing, although the segment is not corrupt. One call of the
/// program fails with `error`, as it would on TCP. Returns false if the connection had already ended.
#[cold]
fn broken_off(conn: &Conn, fd: i32, error: Errno) -> bool {
    if !fails_for(conn, Reason::BrokenOff) {
        return false;
    }
    conn.ends_for(Reason::BrokenOff);
    conn.keep_error(error);
    // Sends a reset, because a FIN would tell the peer that it has received all bytes.
    if call::disconnect(fd).is_err() {
        let _ = call::shutdown(fd, libc::SHUT_RDWR);
    }
    // Discards the error that the kernel has stored on the socket because of the disconnect.
    let _ = call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR);
    true
}

/// Marks the connection as failed. Returns false if the connection was already marked as failed.
fn fails_for(conn: &Conn, reason: Reason) -> bool {
    let is_first = conn.set(flag::CORRUPT) & flag::CORRUPT == 0;
    if is_first {
        conn.stays(reason);
        crate::stats::reason(reason);
    }
    is_first
}

/// Returns the result of a receive on a connection that is corrupt or broken off. If `takes` is true, the program
/// sees the result, so this consumes the stored error.
#[cold]
fn failure(conn: &Conn, takes: bool) -> Got {
    let error = if takes { conn.take_error() } else { conn.error() };
    match error {
        Some(error) => Got::Failed(error),
        None if conn.stays_for() == Some(Reason::BrokenOff) => Got::End,
        None => Got::Failed(libc::ECONNRESET),
    }
}

/// Gives a connection its endpoint of VI number `vi` of `pair`. Requires that nothing has been sent on the VI.
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
    // SAFETY: by this function's contract the segment stays mapped until this process has left the VI. A forked
    // process inherits the mapping together with the connection. Every use of the endpoint's sender or receiver
    // holds the connection's lock.
    let mut guard =
        unsafe { locked.attach(Endpoint::new(&pair.segment, vi, pair.side), flow, protocol) };
    guard.conn.expect_at(guard.endpoint_ref().rx.next_at());
    if pair.other_user.is_some() {
        guard.endpoint_ref().tx.faces_other_user();
    }
    backlog::begin(&mut guard);
    publish_window(&guard, flow.window);
    guard
}

/// Registers [`repair`]. The next thread that takes a connection's lock calls this function if the lock's last
/// holder died.
pub(crate) fn start() {
    crate::conn::repair_by(repair);
}

/// Repairs a connection's body after a thread died while it held the connection's lock.
pub(crate) fn repair(guard: &mut Guard<'_>) {
    // The dead thread may have published ordered packets without counting them. Counts them now, because coalesced
    // bytes are ordered by this count.
    let before = guard.endpoint_ref().tx.sent();
    guard.endpoint().tx.repair();
    guard.coalescer.packets = (guard.counted >> 32) as u32;
    let mut ordered = 0;
    for n in guard.counted as u32..guard.endpoint_ref().tx.sent().max(before) {
        let kind =
            guard.endpoint_ref().tx.immediate(n).and_then(|bits| Immediate::decode(bits).ok());
        ordered += u32::from(kind.is_some_and(|packet| packet.kind.is_ordered()));
    }
    guard.count_sent(ordered);
    // A sender stores TAIL in the segment first, and then in `coalescer`. So TAIL may be one chunk ahead of
    // `coalescer`.
    let tail = tx(guard).writer.load(word::TAIL);
    if tail.wrapping_sub(guard.coalescer.tail) <= u64::from(guard.protocol.chunk) {
        guard.coalescer.tail = tail;
    }
    packets::finish_taking(guard);
    audit::repair(guard);
    // The switch from TCP to the VI was cancelled, so this end must put all its bytes on the VI on TCP.
    if guard.conn.tx() == Tx::Vi && tx(guard).path.load(word::SWITCH) == CANCELLED {
        guard.conn.set(flag::LEFT_VI);
        guard.conn.set_tx(Tx::Back);
    }
    // The dead thread may have sent or taken bytes without notifying the peer.
    notify_reader(guard);
    notify_writer(guard);
    undelivered::repair(guard);
    // The dead thread may have moved bytes from or to TCP without counting them. These calls use the kernel's
    // counts instead.
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

/// Publishes `window`: the number of packets that this end may send before the peer acknowledges one.
fn publish_window(guard: &Guard<'_>, window: u16) {
    tx(guard).writer.store(word::WINDOW, u64::from(window));
}

/// Applies new buffer sizes after the program has set SO_SNDBUF, TCP_NOTSENT_LOWAT or SO_RCVBUF.
pub(crate) fn rebound(guard: &mut Guard<'_>) {
    backlog::bound(guard);
    backlog::publish_holds(guard);
    // Threads that wait to send, at this end or at the peer, may have room now.
    listeners::notify_all(guard);
    notify_writer(guard);
}

/// Notifies the peer's reader that this end has sent bytes or has changed its path.
#[inline]
pub(crate) fn notify_reader(guard: &Guard<'_>) {
    guard.endpoint_ref().tx.notify_reader(|ready_lists| pair::notify(guard, ready_lists));
}

/// Wakes threads of the peer that wait for this connection alone, after this end has sent bytes on TCP. The peer's
/// progress thread may not watch TCP yet ([`crate::kernel_sockets`]).
#[cold]
#[inline(never)]
pub(crate) fn sent_on_tcp(guard: &Guard<'_>) {
    // SYNC: pairs with the reader's announcement of its sleep (`WakeWord::going_to_sleep`). Either the reader then
    // finds the bytes on TCP, or this call finds the announcement.
    fence(Ordering::SeqCst);
    listeners::wake_asleep(&tx(guard).wake_word);
}

/// Notifies the peer's writer that this end has made room, or has changed the path of the receiving direction.
#[inline]
pub(crate) fn notify_writer(guard: &Guard<'_>) {
    guard.endpoint_ref().rx.room(|ready_lists| pair::notify(guard, ready_lists));
}

/// Wakes every thread of this family that waits for the connection. Called when the connection has just left its
/// VI.
pub(crate) fn wake_all(guard: &Guard<'_>) {
    listeners::wake_sleepers(guard.conn, guard.endpoint_ref(), true);
}
