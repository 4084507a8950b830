//! Moving a connection's bytes: what the holder of its lock does.
//!
//! Nothing here waits. [`receive`] and [`send`] do what can be done at once on whichever path the
//! direction is on; [`crate::wait`] and [`crate::ops`] decide what to do when that is nothing.
//!
//! - `packets`, `hold`: what a packet does when it comes, and where those wait that the program has not
//!   had; `transfer`: how one's bytes are sent; `combine`: when the reader is notified of small ones;
//! - `entering`, `leaving`, `kernel_socket`, `returned`: between TCP and the VI: the way in, the way back, what the kernel
//!   says, and what the way back asks of a sender;
//! - `reflected`: what differs where a NIC in software is between the two ends; `failover`: on to TCP when that has died;
//! - `single`: a message that is one packet, where nothing else is to be known;
//! - `take`: bytes off the VI, from where they lie;
//! - `ending`: how the peer's end came, and what is reported of it;
//! - `state`: what flags, paths and the words of the peer come to for a call;
//! - `undelivered`: what is unread on a VI that a receiver leaves, or that it has never entered;
//! - `look`, `peek`: what a call would find; `lend`: places in the pools;
//! - `handled`, `listeners`: messages that a thread of Sovia's handles, and which ready lists are notified;
//! - `unanswered`: a connector that has its VI before its request has been answered;
//! - `uncounted`: bytes on TCP that the kernel alone has counted;
//! - `backlog`: the memory that may hold what the peer has not read;
//! - `audit`: whether the segment is as this end has left it.

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

/// A sender that waits for room is woken, and a poller told, when this much is free again.
const ROOM: u64 = (Area::LEN / 2) as u64;

/// What a receive found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// That many bytes.
    Bytes(usize),
    /// End of file.
    End,
    /// Nothing yet.
    Nothing,
    /// An error for the program.
    Failed(Errno),
}

/// What a send achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// That many bytes accepted.
    Bytes(usize),
    /// No room now.
    Full,
    /// An error for the program.
    Failed(Errno),
    /// The kernel must be asked: its verdict, and its signal, are the program's.
    AskKernel,
}

enum Fault {
    /// The segment holds nonsense.
    Corrupt,
    /// The program's memory is not all there.
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

/// The error that the program gets for a fault.
#[cold]
fn failed(conn: &Conn, fd: i32, fault: Fault) -> Errno {
    match fault {
        Fault::Corrupt => corrupt(conn, fd),
        Fault::BadAddress => libc::EFAULT,
    }
}

/// The segment holds nonsense: this connection ends with an error, at both ends; nothing else
/// is touched.
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

/// Ends a connection whose segment holds nonsense, by a descriptor of this process.
#[cold]
fn corrupt_here(guard: &Guard<'_>) {
    if let Some(fd) = table::descriptor_of(guard.conn) {
        corrupt(guard.conn, fd);
    }
}

/// Something of what the peer had sent may be missing, and the segment is sound: the connection ends with `error`, which is told
/// once, as the kernel tells one. False if it had ended before.
#[cold]
fn broken_off(conn: &Conn, fd: i32, error: Errno) -> bool {
    if !fails_for(conn, Reason::BrokenOff) {
        return false;
    }
    conn.ends_for(Reason::BrokenOff);
    conn.keep_error(error);
    // The peer is sent a reset: a FIN would say that it has everything.
    if call::disconnect(fd).is_err() {
        let _ = call::shutdown(fd, libc::SHUT_RDWR);
    }
    // The kernel keeps an error of its own for that.
    let _ = call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR);
    true
}

/// Nothing of the connection goes on. False if that is known.
fn fails_for(conn: &Conn, reason: Reason) -> bool {
    let is_first = conn.set(flag::CORRUPT) & flag::CORRUPT == 0;
    if is_first {
        conn.stays(reason);
        crate::stats::reason(reason);
    }
    is_first
}

/// What a receive comes to on a connection that is corrupt or broken off; `takes`: the program is told of it.
#[cold]
fn failure(conn: &Conn, takes: bool) -> Got {
    let error = if takes { conn.take_error() } else { conn.error() };
    match error {
        Some(error) => Got::Failed(error),
        None if conn.stays_for() == Some(Reason::BrokenOff) => Got::End,
        None => Got::Failed(libc::ECONNRESET),
    }
}

/// Gives a connection its end of a VI of that pair, on which nothing has been sent.
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
    // SAFETY: the caller sees to the mapping, which forked processes inherit with the connection; the lock
    // serialises the use of the endpoint's halves.
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

/// Has what the dead have left repaired, from now on.
pub(crate) fn start() {
    crate::conn::repair_by(repair);
}

/// Makes a body whole whose last owner died in the middle of something.
pub(crate) fn repair(guard: &mut Guard<'_>) {
    // Ordered packets that were published and not counted: gathered bytes go after them.
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
    // Gathered bytes are published step by step, and noted after each.
    let tail = tx(guard).writer.load(word::TAIL);
    if tail.wrapping_sub(guard.gatherer.tail) <= u64::from(guard.protocol.chunk) {
        guard.gatherer.tail = tail;
    }
    packets::finish_taking(guard);
    audit::repair(guard);
    // A switch that has been taken back leaves nothing on the VI that would not go to TCP.
    if guard.conn.tx() == Tx::Vi && tx(guard).path.load(word::SWITCH) == CANCELLED {
        guard.conn.set(flag::LEFT_VI);
        guard.conn.set_tx(Tx::Back);
    }
    if guard.conn.rest.find().is_some() {
        // A keeper has what is unread ([`crate::rest`]).
        guard.conn.clear(flag::RETURNING);
        guard.conn.set_rx(Rx::Back);
    }
    // It may not have come to telling of what it had sent, or taken.
    tell_reader(guard);
    tell_writer(guard);
    undelivered::repair(guard);
    // Bytes may have been taken from TCP, or put there, and not been counted; the kernel has counted them.
    let conn = guard.conn;
    if let Some(fd) = crate::table::descriptor_of(conn) {
        returned::repair(guard, fd);
        failover::repair(guard, fd);
        if conn.rx() == Rx::Granted || conn.has(flag::RETURNING) {
            uncounted::count_read(conn, fd);
        }
    }
}

/// The block of the direction in which this end sends.
fn tx<'g>(guard: &'g Guard<'_>) -> &'g Direction {
    guard.endpoint_ref().tx.direction()
}

/// The block of the direction in which this end receives.
fn rx<'g>(guard: &'g Guard<'_>) -> &'g Direction {
    guard.endpoint_ref().rx.direction()
}

/// Tells the peer how many packets it may find unacknowledged.
fn say_window(guard: &Guard<'_>, window: u16) {
    tx(guard).writer.store(word::WINDOW, u64::from(window));
}

/// The program has set how many bytes may lie unsent or unread.
pub(crate) fn rebound(guard: &mut Guard<'_>) {
    backlog::bound(guard);
    backlog::say_holds(guard);
    // There may be room now: at this end for its own threads, and for the peer's.
    listeners::tell_all(guard);
    tell_writer(guard);
}

/// Tells the peer's reader that there is news for it.
#[inline]
pub(crate) fn tell_reader(guard: &Guard<'_>) {
    guard.endpoint_ref().tx.news(|ready_lists| pair::notify(guard, ready_lists));
}

/// Tells the peer's writer that there is room, or that the path changed.
#[inline]
pub(crate) fn tell_writer(guard: &Guard<'_>) {
    guard.endpoint_ref().rx.room(|ready_lists| pair::notify(guard, ready_lists));
}

/// Wakes every thread of this family that waits for the connection, which has just left its VI.
pub(crate) fn wake_all(guard: &Guard<'_>) {
    listeners::wake_sleepers(guard.conn, guard.endpoint_ref(), true);
}
