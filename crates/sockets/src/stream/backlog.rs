//! Limits the segment memory that a direction uses for unread bytes.
//!
//! The first bytes of each pool and overflow buffer are not counted. For more, a sender takes memory from the
//! family's limit in large steps ([`crate::backlog`]). The sender returns this memory within a second after the
//! peer has read everything ([`give_back`]), and at the connection's end.
//!
//! If a program has set a buffer size, the number of unread bytes is limited as on TCP. The limit is this end's
//! send buffer plus the peer's receive buffer ([`bound`]). If only one of these sizes is set, the kernel's default
//! replaces the other size. If no size is set, the host's limits (tcp_wmem, tcp_rmem) apply if they are smaller
//! than the direction's memory. Under a small limit the pool would be too small for the largest messages, so all
//! bytes are coalesced.

use super::{rx, tx, word};
use crate::conn::{Conn, Guard, HasEndpoint, flag};
use crate::pair::{KEPT, Used};
use crate::per_engine::per_engine;
use crate::{backlog, family};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_proto::order::Next;
use sovia_proto::path::{Returned, Tx};
use sovia_ring::endpoint::{MESSAGE_MAX, OverflowBuffer};
use sovia_ring::pool::POOL;
use sovia_sys::clock;

/// Number of bytes of the pool that are not counted. The largest message fits into these bytes.
const POOL_LEAST: u32 = MESSAGE_MAX as u32;
/// Number of bytes of the overflow buffer that are not counted.
const OVERFLOW_LEAST: u32 = 16 << 10;
/// Divisor of the family's limit: a direction may leave this part of the limit allocated for a while after the VI has
/// become free. All free VIs of a segment together then keep at most as much as the limit.
const STAYING_PART: u64 = 256;
/// Factor by which the usable part of the pool or overflow buffer grows at each request.
const STEP: u32 = 4;

/// Number of bytes that the kernel buffers for sending if the program has not set SO_SNDBUF. This is half of the
/// default maximum of tcp_wmem, because the kernel uses the other half for its own structures.
const SENDS_AHEAD: u32 = 2 << 20;
/// Number of received bytes that the kernel buffers for a program that does not read and has not set SO_RCVBUF.
/// This is TCP's initial window.
const HOLDS: u32 = 64 << 10;
/// Number of bytes that a direction's pool and overflow buffer can hold together.
const ALL: u32 = POOL as u32 + OverflowBuffer::LEN as u32;
/// Smallest limit on unread bytes with which packets use the pool. Under a smaller limit, all bytes are coalesced.
const WITH_POOL: u32 = 2 * POOL_LEAST;

/// Initialises the limits of the sending direction of a new VI. At first this direction uses only memory that is
/// not counted.
pub(super) fn begin(guard: &mut Guard<'_>) {
    guard.endpoint().tx.set_pool_limit(POOL_LEAST);
    guard.own.window = guard.flow.window();
    guard.own.bound = u32::MAX;
    publish_holds(guard);
    bound(guard);
}

/// Publishes the size of the program's receive buffer.
pub(crate) fn publish_holds(guard: &Guard<'_>) {
    rx(guard).reader.store(word::HOLDS, u64::from(guard.conn.holds.load(Ordering::Relaxed)));
}

/// Updates the limit on unread bytes in the sending direction, from the two programs' present buffer sizes.
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

/// Returns how many of `wanted` bytes may be sent under the limit on unread bytes. Does not check whether the
/// segment has room.
#[inline]
pub(super) fn allowed(guard: &mut Guard<'_>, wanted: usize) -> usize {
    if guard.own.bound == u32::MAX { wanted } else { left(guard).min(wanted) }
}

/// Returns the number of bytes that may be sent before the limit on unread bytes is reached.
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
    guard.coalescer.next(taken);
    in_packets as usize + guard.coalescer.waiting() as usize
}

/// Returns true if at least a third of the limit on unread bytes is free. The kernel uses the same rule to report a
/// socket as writable.
#[inline]
pub(super) fn is_allowed_more(guard: &mut Guard<'_>) -> bool {
    guard.own.bound == u32::MAX || left(guard) >= guard.own.bound as usize / 3
}

/// Returns the counted memory in KiB, if `pool` bytes of the pool and `overflow` additional bytes of the overflow
/// buffer are usable.
fn cost(pool: u32, overflow: u32) -> u32 {
    (pool - POOL_LEAST.min(pool) + overflow) >> 10
}

per_engine! {
    /// Time of the last search for memory of dead processes, in nanoseconds.
    static SWEPT: AtomicU64 = AtomicU64::new(0);
}
/// Shortest time between two searches for memory of dead processes, in nanoseconds. A search makes a system call
/// for each process of the family.
const SWEEP_NS: u64 = 100_000_000;

/// Returns true if the connection may use `memory` KiB in total. If the family's limit is reached, first frees
/// memory of forked relatives that died without closing their connections.
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

/// Increases the usable part of the pool. Returns false if the whole pool is usable already, or if a limit allows
/// no more memory.
#[cold]
#[inline(never)]
pub(super) fn more_pool(guard: &mut Guard<'_>) -> bool {
    let now = guard.endpoint_ref().tx.pool_limit();
    bound(guard);
    // The pool gets half of the limit on unread bytes. The other half is for coalesced bytes.
    let more = now.saturating_mul(STEP).min(POOL as u32).min(guard.own.bound / 2);
    let may = more > now && may_use(guard.conn, cost(more, guard.own.overflow));
    if may {
        guard.endpoint().tx.set_pool_limit(more);
    }
    may
}

/// Returns the usable length of the overflow buffer, in bytes.
#[inline]
fn limit(guard: &Guard<'_>) -> usize {
    (OVERFLOW_LEAST + guard.own.overflow) as usize
}

/// Returns how many of `wanted` bytes fit into the overflow buffer. `coalesced` is the number of bytes put there
/// since the buffer was last empty. `waiting` is the number of bytes in the buffer that the receiver has not taken.
#[inline]
pub(super) fn room(guard: &mut Guard<'_>, coalesced: u64, waiting: u64, wanted: usize) -> usize {
    let free = (OverflowBuffer::LEN as u64 - waiting) as usize;
    let wanted = wanted.min(free);
    // The overflow buffer is used as a circular buffer only if its whole length is usable.
    let end = usize::try_from(coalesced).map_or(usize::MAX, |begin| begin.saturating_add(wanted));
    while limit(guard) < end.min(OverflowBuffer::LEN) {
        if !more_overflow(guard) {
            return wanted.min(limit(guard).saturating_sub(coalesced as usize));
        }
    }
    wanted
}

#[cold]
#[inline(never)]
fn more_overflow(guard: &mut Guard<'_>) -> bool {
    let more =
        (OVERFLOW_LEAST + guard.own.overflow).saturating_mul(STEP).min(OverflowBuffer::LEN as u32)
            - OVERFLOW_LEAST;
    let pool = guard.endpoint_ref().tx.pool_limit();
    let may = more > guard.own.overflow && may_use(guard.conn, cost(pool, more));
    if may {
        guard.own.overflow = more;
    }
    may
}

/// Returns true if the overflow buffer has room for at least half of its uncounted bytes. Makes more of the buffer
/// usable if needed and allowed.
///
/// Called for `poll`, which so reports room before the reader has read anything. Otherwise a program that polls
/// could send only one small buffer of bytes per round trip to a reader on another host.
pub(super) fn has_room(guard: &mut Guard<'_>) -> bool {
    loop {
        let coalesced = guard.coalescer.tail.wrapping_sub(guard.own.start);
        let limit = limit(guard);
        if limit == OverflowBuffer::LEN || coalesced + u64::from(OVERFLOW_LEAST / 2) <= limit as u64
        {
            return true;
        }
        if !more_overflow(guard) {
            return false;
        }
    }
}

/// Returns how much memory of the VI the connection has used. A small amount stays allocated for the next
/// connection. A larger amount stays allocated for a while, if it is a small part of the family's limit. Without that,
/// the kernel would clear the same pages again for each new connection. This costs more than TCP's copies.
pub(crate) fn used(guard: &Guard<'_>) -> Used {
    let coalesced = guard.coalescer.tail.min(OverflowBuffer::LEN as u64);
    let used = guard.endpoint_ref().tx.pool_used() as u64 + coalesced;
    let returned = Returned::from_word(super::rx(guard).path.load(word::RETURNED));
    if matches!(returned, Returned::Bytes(1..)) {
        Used::Much
    } else if used <= KEPT as u64 {
        Used::Little
    } else if used <= crate::backlog::limit() / STAYING_PART {
        Used::ForNow
    } else {
        Used::Much
    }
}

/// Returns the direction's counted memory to the family's limit, if the overflow buffer is empty. Keeps pool
/// memory with unread messages.
pub(super) fn give_back(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if conn.memory() == 0
        || conn.tx() != Tx::Vi
        || conn.has(flag::FALLING_BACK | flag::LEFT_VI | flag::CORRUPT)
    {
        return;
    }
    let taken = tx(guard).reader.load(word::HEAD);
    if guard.coalescer.next(taken) == Next::Coalesce {
        return;
    }
    if guard.own.overflow != 0 {
        guard.endpoint_ref().tx.trim_overflow_buffer(KEPT);
        guard.own.overflow = 0;
    }
    if guard.endpoint().tx.trim_pool(KEPT) {
        guard.endpoint().tx.set_pool_limit(POOL_LEAST);
    }
    conn.use_memory(cost(guard.endpoint_ref().tx.pool_limit(), 0));
}
