//! Bounds the memory of the segment that a direction uses for unread bytes.
//!
//! Each direction may use the first bytes of the pool and of the overflow buffer without being counted. A sender
//! requests more memory in large steps ([`crate::backlog`]). The memory is returned after the peer has read everything:
//! within a second while the connection lives ([`give_back`]), and at the connection's end.
//!
//! A program may set the size of a buffer. Then the unread bytes are bounded by the amount that the kernel would take:
//! this end's send buffer and the peer's receive buffer ([`bound`]). If only one size is set, the kernel's default
//! counts for the other. If no size is set, the host's limits for a socket (tcp_wmem, tcp_rmem) count if they are below
//! the segment's memory. The largest messages need a large pool, so under a small bound all bytes are coalesced.

use super::{rx, tx, word};
use crate::conn::{Conn, Guard, HasEndpoint, flag};
use crate::pair::{KEPT, Used};
use crate::per_engine::per_engine;
use crate::{backlog, family};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_proto::order::Next;
use sovia_proto::path::{Returned, Tx};
use sovia_sys::clock;
use via_shm::endpoint::{Area, MESSAGE_MAX};
use via_shm::pool::POOL;

/// Bytes of the pool that are not counted. The largest message fits.
const POOL_LEAST: u32 = MESSAGE_MAX as u32;
/// Bytes of the overflow buffer that are not counted.
const AREA_LEAST: u32 = 16 << 10;
/// Largest part of a direction's memory, in bytes, that is kept for a while after its VI has become free.
const STAYS: u64 = 1 << 20;
/// Factor by which a limit grows at each request.
const STEP: u32 = 4;

/// Bytes that the kernel takes from a program that has not set SO_SNDBUF: half of tcp_wmem's largest size. The kernel
/// uses the other half for its own structures.
const SENDS_AHEAD: u32 = 2 << 20;
/// Bytes that the kernel holds for a program that has not set SO_RCVBUF and does not read: the initial window.
const HOLDS: u32 = 64 << 10;
/// Bytes that a direction's memory can hold.
const ALL: u32 = POOL as u32 + Area::LEN as u32;
/// Smallest bound that leaves the pool enough memory for the largest messages.
const WITH_POOL: u32 = 2 * POOL_LEAST;

/// Initialises the sending half of a new VI, with only the memory that is not counted.
pub(super) fn begin(guard: &mut Guard<'_>) {
    guard.endpoint().tx.set_pool_limit(POOL_LEAST);
    guard.own.window = guard.flow.window();
    guard.own.bound = u32::MAX;
    say_holds(guard);
    bound(guard);
}

/// Publishes the size of the program's receive buffer.
pub(crate) fn say_holds(guard: &Guard<'_>) {
    rx(guard).reader.store(word::HOLDS, u64::from(guard.conn.holds.load(Ordering::Relaxed)));
}

/// Computes how many bytes may be unread, from the two programs' present buffer sizes.
pub(crate) fn bound(guard: &mut Guard<'_>) {
    let own = guard.conn.sends_ahead.load(Ordering::Relaxed);
    let peers = u32::try_from(tx(guard).reader.load(word::HOLDS)).unwrap_or(0);
    let or = |size: u32, unset| if size == 0 { unset } else { size };
    let (sends, holds) = backlog::of_a_connection();
    let bound = match (own, peers) {
        (0, 0) if sends.saturating_add(holds) >= ALL => u32::MAX,
        (0, 0) => sends + holds,
        _ => or(own, SENDS_AHEAD.min(sends)).saturating_add(or(peers, HOLDS.min(holds))),
    };
    if bound != guard.own.bound {
        guard.own.bound = bound;
        let window = if bound < WITH_POOL { 0 } else { guard.own.window };
        guard.flow.narrow(window);
    }
}

/// Returns how many of `wanted` bytes the bound allows to be sent. Does not check for room.
#[inline]
pub(super) fn allowed(guard: &mut Guard<'_>, wanted: usize) -> usize {
    if guard.own.bound == u32::MAX { wanted } else { left(guard).min(wanted) }
}

/// Returns the number of bytes that the bound still allows.
#[cold]
fn left(guard: &mut Guard<'_>) -> usize {
    bound(guard);
    (guard.own.bound as usize).saturating_sub(unread(guard))
}

/// Returns the number of bytes sent on the VI that the peer has not read. A partly read packet counts as unread.
fn unread(guard: &mut Guard<'_>) -> usize {
    let reader = &tx(guard).reader;
    let in_packets = guard.bytes_sent.wrapping_sub(reader.load(word::TAKEN_BYTES) as u32);
    let taken = reader.load(word::HEAD);
    guard.gatherer.next(taken);
    in_packets as usize + guard.gatherer.waiting() as usize
}

/// Returns true if a third of the bound is left. With less, the kernel does not report a socket as writable.
#[inline]
pub(super) fn is_allowed_more(guard: &mut Guard<'_>) -> bool {
    guard.own.bound == u32::MAX || left(guard) >= guard.own.bound as usize / 3
}

/// Returns the counted memory for the two limits, in KiB.
fn cost(pool: u32, area: u32) -> u32 {
    (pool - POOL_LEAST.min(pool) + area) >> 10
}

per_engine! {
    /// Time of the last search for memory that dead processes have used (nanoseconds).
    static SWEPT: AtomicU64 = AtomicU64::new(0);
}
/// Least time between two searches, in nanoseconds. A search asks the kernel about each process of the family.
const SWEEP_NS: u64 = 100_000_000;

/// Takes `memory` KiB for the connection, and returns true if it may use them. If the memory is used up, looks for
/// memory of forked relatives that died without a close.
fn may_use(conn: &Conn, memory: u32) -> bool {
    if conn.may_use_memory(memory) {
        return true;
    }
    let (now, last) = (clock::now_ns(), SWEPT.load(Ordering::Relaxed));
    let order = Ordering::Relaxed;
    if now.saturating_sub(last) < SWEEP_NS
        || SWEPT.compare_exchange(last, now, order, order).is_err()
    {
        return false;
    }
    family::sweep();
    conn.may_use_memory(memory)
}

/// Makes more of the pool usable. Returns false if all of it is usable, or if no more memory is allowed.
#[cold]
#[inline(never)]
pub(super) fn more_pool(guard: &mut Guard<'_>) -> bool {
    let now = guard.endpoint_ref().tx.pool_limit();
    bound(guard);
    // The other part of the bound is for coalesced bytes.
    let more = now.saturating_mul(STEP).min(POOL as u32).min(guard.own.bound / 2);
    let may = more > now && may_use(guard.conn, cost(more, guard.own.area));
    if may {
        guard.endpoint().tx.set_pool_limit(more);
    }
    may
}

/// Returns the number of bytes, from the start of the overflow buffer, that may be used.
#[inline]
fn limit(guard: &Guard<'_>) -> usize {
    (AREA_LEAST + guard.own.area) as usize
}

/// Returns how many of `wanted` bytes fit into the overflow buffer. The sender has put `gathered` bytes there since the
/// buffer was last empty; the receiver has not taken `waiting` of them.
#[inline]
pub(super) fn room(guard: &mut Guard<'_>, gathered: u64, waiting: u64, wanted: usize) -> usize {
    let free = (Area::LEN as u64 - waiting) as usize;
    let wanted = wanted.min(free);
    // The overflow buffer is used in a circle only if all of it may be used.
    let end = usize::try_from(gathered).map_or(usize::MAX, |begin| begin.saturating_add(wanted));
    while limit(guard) < end.min(Area::LEN) {
        if !more_area(guard) {
            return wanted.min(limit(guard).saturating_sub(gathered as usize));
        }
    }
    wanted
}

#[cold]
#[inline(never)]
fn more_area(guard: &mut Guard<'_>) -> bool {
    let more =
        (AREA_LEAST + guard.own.area).saturating_mul(STEP).min(Area::LEN as u32) - AREA_LEAST;
    let pool = guard.endpoint_ref().tx.pool_limit();
    let may = more > guard.own.area && may_use(guard.conn, cost(pool, more));
    if may {
        guard.own.area = more;
    }
    may
}

/// Returns true if the overflow buffer has room for a useful number of bytes. Requests more memory if not.
///
/// So a program that waits for room with `poll` gets as far ahead of its reader as one that only writes. The same holds
/// on TCP. Otherwise the program could send only one bufferful per round trip to a reader on another host.
pub(super) fn has_room(guard: &mut Guard<'_>) -> bool {
    loop {
        let gathered = guard.gatherer.tail.wrapping_sub(guard.own.start);
        let limit = limit(guard);
        if limit == Area::LEN || gathered + u64::from(AREA_LEAST / 2) <= limit as u64 {
            return true;
        }
        if !more_area(guard) {
            return false;
        }
    }
}

/// Classifies the VI memory that the connection has used. A little stays for the next connection. More stays for a
/// while if it is a small part of the limit.
pub(crate) fn used(guard: &Guard<'_>) -> Used {
    let used = (guard.endpoint_ref().tx.pool_used() as u64).max(guard.gatherer.tail);
    let returned = Returned::from_word(super::rx(guard).path.load(word::RETURNED));
    if matches!(returned, Returned::Bytes(1..)) {
        Used::Much
    } else if used <= KEPT as u64 {
        Used::Little
    } else if used <= STAYS.min(crate::backlog::limit() / 64) {
        Used::ForNow
    } else {
        Used::Much
    }
}

/// Returns memory that the direction does not need now.
pub(super) fn give_back(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if conn.memory() == 0
        || conn.tx() != Tx::Vi
        || conn.has(flag::FALLING_BACK | flag::LEFT_VI | flag::CORRUPT)
    {
        return;
    }
    let taken = tx(guard).reader.load(word::HEAD);
    if guard.gatherer.next(taken) == Next::Gather {
        return;
    }
    if guard.own.area != 0 {
        guard.endpoint_ref().tx.trim_area(KEPT);
        guard.own.area = 0;
    }
    if guard.endpoint().tx.trim_pool(KEPT) {
        guard.endpoint().tx.set_pool_limit(POOL_LEAST);
    }
    conn.use_memory(cost(guard.endpoint_ref().tx.pool_limit(), 0));
}
