//! The segment's memory that a direction may use for what the peer has not read yet.
//!
//! The first bytes of the pool and of the area are for nothing; more is asked for in large steps
//! ([`crate::backlog`]) and given back once the peer has read everything: within a second while the
//! connection lives ([`give_back`]), and at its end.
//!
//! A program may set the size of a buffer. Then the unread bytes are bounded by what the kernel would take: this end's buffer for
//! sending and the peer's for receiving ([`bound`]). A size that is not set counts as what the kernel gives a socket. Where no size
//! is set, the host's limits for a socket count (tcp_wmem, tcp_rmem), if they are below the segment's memory.
//! The largest messages need a pool that is not small, so all bytes are gathered under a small bound.

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

/// Bytes of the pool that are for nothing: the largest message fits.
const POOL_LEAST: u32 = MESSAGE_MAX as u32;
/// Bytes of the area that are for nothing.
const AREA_LEAST: u32 = 16 << 10;
/// Bytes of a direction's memory that stay at most until the VI has been free for a while.
const STAYS: u64 = 1 << 20;
/// How many times as much is asked for at once as there was.
const STEP: u32 = 4;

/// Bytes that the kernel takes from a program that has not set SO_SNDBUF: half of tcp_wmem's largest size. The rest is for the
/// kernel's own structures.
const SENDS_AHEAD: u32 = 2 << 20;
/// Bytes that the kernel holds for a program that has not set SO_RCVBUF and does not read: the window that it begins with.
const HOLDS: u32 = 64 << 10;
/// Bytes that a direction's memory holds.
const ALL: u32 = POOL as u32 + Area::LEN as u32;
/// Bounds from here on leave the pool enough for the largest messages.
const WITH_POOL: u32 = 2 * POOL_LEAST;

/// A VI has been given to the connection: its sending half begins with what is for nothing.
pub(super) fn begin(guard: &mut Guard<'_>) {
    guard.endpoint().tx.set_pool_limit(POOL_LEAST);
    guard.own.window = guard.flow.window();
    guard.own.bound = u32::MAX;
    say_holds(guard);
    bound(guard);
}

/// Tells the peer what the program's receive buffer holds.
pub(crate) fn say_holds(guard: &Guard<'_>) {
    rx(guard).reader.store(word::HOLDS, u64::from(guard.conn.holds.load(Ordering::Relaxed)));
}

/// Finds out how many bytes may be unread, as the two programs have it by now.
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

/// How many of `wanted` bytes may be sent, besides whether there is room for them.
#[inline]
pub(super) fn allowed(guard: &mut Guard<'_>, wanted: usize) -> usize {
    if guard.own.bound == u32::MAX { wanted } else { left(guard).min(wanted) }
}

/// Bytes that the bound leaves.
#[cold]
fn left(guard: &mut Guard<'_>) -> usize {
    bound(guard);
    (guard.own.bound as usize).saturating_sub(unread(guard))
}

/// Bytes that have been sent on the VI and that the peer has not read, but for those it has had of a packet's beginning.
fn unread(guard: &mut Guard<'_>) -> usize {
    let reader = &tx(guard).reader;
    let in_packets = guard.bytes_sent.wrapping_sub(reader.load(word::TAKEN_BYTES) as u32);
    let taken = reader.load(word::HEAD);
    guard.gatherer.next(taken);
    in_packets as usize + guard.gatherer.waiting() as usize
}

/// Returns true if a third of the bound is left. With less the kernel does not call a socket writable.
#[inline]
pub(super) fn is_allowed_more(guard: &mut Guard<'_>) -> bool {
    guard.own.bound == u32::MAX || left(guard) >= guard.own.bound as usize / 3
}

/// What the two limits cost, in KiB.
fn cost(pool: u32, area: u32) -> u32 {
    (pool - POOL_LEAST.min(pool) + area) >> 10
}

per_engine! {
    /// When it was last looked for memory that the dead have used.
    static SWEPT: AtomicU64 = AtomicU64::new(0);
}
/// How long until that is done again, in nanoseconds: it asks the kernel for each process of the family.
const SWEEP_NS: u64 = 100_000_000;

/// Whether the connection may use so much memory (KiB). What relatives have used that ended without a
/// close is found when there is no more.
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

/// Makes more of the pool usable. False if it is all usable, or no more may be used.
#[cold]
#[inline(never)]
pub(super) fn more_pool(guard: &mut Guard<'_>) -> bool {
    let now = guard.endpoint_ref().tx.pool_limit();
    bound(guard);
    // A part of the bound is for what is gathered.
    let more = now.saturating_mul(STEP).min(POOL as u32).min(guard.own.bound / 2);
    let may = more > now && may_use(guard.conn, cost(more, guard.own.area));
    if may {
        guard.endpoint().tx.set_pool_limit(more);
    }
    may
}

/// Bytes of the area from its beginning that may be used.
#[inline]
fn limit(guard: &Guard<'_>) -> usize {
    (AREA_LEAST + guard.own.area) as usize
}

/// How many of `wanted` bytes the area has room for. They are the next of a gathering of which
/// `gathered` bytes have been put there, and `waiting` not been taken yet.
#[inline]
pub(super) fn room(guard: &mut Guard<'_>, gathered: u64, waiting: u64, wanted: usize) -> usize {
    let free = (Area::LEN as u64 - waiting) as usize;
    let wanted = wanted.min(free);
    // Only an area that may be used as a whole is used in turns.
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

/// Whether there is room for a good part of what is for nothing. More is asked for: a program that waits for room by a poll
/// may be as far ahead of its reader as one that just writes, as on TCP. To a reader on another host it would otherwise send
/// a filling of what it writes at a time for each round trip.
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

/// What the connection has used of its VI's memory. A little stays for the next one; more does so for a while, where
/// it is no considerable part of what may be used.
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

/// Gives memory back that the direction does not need now.
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
