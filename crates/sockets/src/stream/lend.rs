//! Lends slots of the pools to the program, so that it can write and read messages in the segment without a copy.
//!
//! A pool's slots are used and released in order. While a slot is lent for writing, no other message gets a slot.
//! Messages that do not fit into a ring entry are then coalesced ([`super::send`]). While a slot is borrowed for
//! reading, the slots of later messages are not released, even after the program has read these messages.

use super::hold::{kind_of, look};
use super::packets::{consumed, count_arrival, packet_of, take_data, take_held_data};
use super::send::{cannot, finish_send, goes_over_vi, posted, send_vi};
use super::{Fault, Put, backlog, failed, rx, tx, word};
use crate::conn::{Guard, HELD, HasEndpoint, flag};
use core::ptr::NonNull;
use sovia_proto::configuration::Transfer;
use sovia_proto::order::{Next, Take};
use sovia_proto::packet::Kind;
use sovia_proto::path::Rx;
use sovia_ring::ring::INLINE;
use sovia_sys::UserSlice;

/// Result of [`lend`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LendResult {
    /// The slot, at this address.
    Here(NonNull<u8>),
    /// No slot is free now. The value is [`lend_progress`]. Once it changes, a slot may be free.
    NotNow(u64),
    /// No slot can be lent in the connection's present state.
    Nowhere,
}

/// Lends the program a slot of the pool for a message of up to `len` bytes.
pub(crate) fn lend(guard: &mut Guard<'_>, len: u32) -> LendResult {
    let conn = guard.conn;
    if !goes_over_vi(conn) || conn.has(flag::FALLING_BACK) || guard.endpoint_ref().tx.has_lent() {
        return LendResult::Nowhere;
    }
    match may_send(guard) {
        Ok(true) => {}
        Ok(false) => return LendResult::NotNow(lend_progress(guard)),
        Err(_) => return LendResult::Nowhere,
    }
    let mut place = guard.endpoint().tx.lend(len);
    if place == Ok(None) && backlog::more_pool(guard) {
        place = guard.endpoint().tx.lend(len);
    }
    match place {
        Ok(Some(memory)) => LendResult::Here(memory),
        Ok(None) => LendResult::NotNow(lend_progress(guard)),
        Err(_) => LendResult::Nowhere,
    }
}

/// Returns true if a message of `len` bytes would be copied into one packet and sent at once.
pub(crate) fn packets_go_at_once(guard: &Guard<'_>, len: usize) -> bool {
    len <= guard.protocol.chunk as usize
        && guard.protocol.transfer == Transfer::Auto
        && !guard.conn.has(flag::COMBINES)
}

/// Returns how many of `len` bytes one packet in a lent slot may carry at once; 0 if none.
pub(crate) fn packet_room(guard: &mut Guard<'_>, len: usize) -> usize {
    let len = len.min(guard.protocol.chunk as usize);
    if packets_go_at_once(guard, len) { backlog::allowed(guard, len) } else { 0 }
}

/// Returns a number that changes when the receiver has read bytes on the VI.
pub(crate) fn lend_progress(guard: &Guard<'_>) -> u64 {
    let direction = tx(guard);
    direction
        .reader
        .load(word::HEAD)
        .wrapping_add(direction.credit.released())
        .wrapping_add(u64::from(guard.flow.unacked()) << 48)
}

/// Returns true if the window has room, and the receiver has taken all coalesced bytes.
fn may_send(guard: &mut Guard<'_>) -> Result<bool, Fault> {
    if guard.coalescer.is_coalescing() {
        let taken = tx(guard).reader.load(word::HEAD);
        if guard.coalescer.next(taken) == Next::Coalesce {
            return Ok(false);
        }
    }
    if !guard.flow.can_send() {
        look(guard)?;
    }
    Ok(guard.flow.can_send())
}

/// Sends `bytes`, the unsent part of the `all` bytes that the program has written into a lent slot. If nothing was
/// sent before and the window has room, the slot itself is sent as one packet. Otherwise, and for messages that fit
/// into a ring entry, the bytes are copied. After the last copy, the slot is taken back.
pub(crate) fn commit(guard: &mut Guard<'_>, fd: i32, bytes: UserSlice<'_>, all: usize) -> Put {
    if let Some(put) = cannot(guard, fd) {
        return put;
    }
    let sent = commit_vi(guard, bytes, all);
    finish_send(guard, fd, bytes, sent)
}

fn commit_vi(guard: &mut Guard<'_>, bytes: UserSlice<'_>, all: usize) -> Result<usize, Fault> {
    if bytes.len() == all && all > INLINE && may_send(guard)? {
        let packet = guard.flow.send(Kind::Data);
        if guard.endpoint().tx.commit(packet.encode(), all as u32)? {
            posted(guard, all);
            return Ok(all);
        }
        guard.flow.unsend(packet);
    }
    // A lent slot blocks the pool, so `send_vi` copies the bytes into a ring entry or into the overflow buffer.
    let n = send_vi(guard, bytes)?;
    if n == bytes.len() {
        guard.endpoint().tx.take_back();
    }
    Ok(n)
}

/// Takes the lent slot back without sending its bytes.
pub(crate) fn take_back(guard: &mut Guard<'_>) {
    guard.endpoint().tx.take_back();
}

/// Result of [`borrow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BorrowResult {
    /// The message's address and length. The message counts as consumed.
    Here(NonNull<u8>, usize),
    /// The next message does not lie in the pool, or there is no message, or the stream has ended.
    Small,
    /// The next bytes are coalesced bytes, which do not lie in the pool.
    Bulk,
    /// The receiving direction is not on the VI, or another message is already borrowed.
    Elsewhere,
    /// The receive fails with this error.
    Failed(i32),
}

/// Lends the program the next message for reading in place, if the message lies in the pool.
pub(crate) fn borrow(guard: &mut Guard<'_>, fd: i32) -> BorrowResult {
    let conn = guard.conn;
    if conn.rx() != Rx::Vi || conn.has(flag::FALLING_BACK | flag::CORRUPT) || guard.borrowed {
        return BorrowResult::Elsewhere;
    }
    match borrow_vi(guard) {
        Ok(find) => find,
        Err(fault) => BorrowResult::Failed(failed(conn, fd, fault)),
    }
}

fn borrow_vi(guard: &mut Guard<'_>) -> Result<BorrowResult, Fault> {
    let line = &rx(guard).writer;
    let tail = line.load(word::TAIL);
    if tail != guard.taker.head {
        let after = line.load(word::AFTER) as u32;
        if let Take::Coalesced(_) = guard.taker.next(tail, after) {
            return Ok(BorrowResult::Bulk);
        }
    }
    let from = guard.front;
    let (at, len, release);
    if guard.held_first != guard.held_end {
        let held = guard.held[guard.held_first as usize % HELD];
        if kind_of(held.kind) != Some(Kind::Data) || !held.pooled {
            return Ok(BorrowResult::Small);
        }
        (at, len, release) = (held.at, held.len, held.release);
        if from >= len {
            return Err(Fault::Corrupt);
        }
        take_held_data(guard, len);
    } else if guard.conn.has_handler() {
        return Ok(BorrowResult::Small);
    } else {
        let Some(entry) = guard.endpoint_ref().rx.head()? else { return Ok(BorrowResult::Small) };
        let packet = packet_of(&entry)?;
        let (Kind::Data, Some(place)) = (packet.kind, entry.pool_offset) else {
            return Ok(BorrowResult::Small);
        };
        if from >= entry.len {
            return Err(Fault::Corrupt);
        }
        count_arrival(guard, packet)?;
        let position = take_data(guard, &entry)?;
        (at, len, release) = (place, entry.len, position.unwrap_or(0));
    }
    let memory = guard.endpoint_ref().rx.pooled(at, len, from).ok_or(Fault::Corrupt)?;
    guard.borrowed = true;
    consumed(guard, len, Some(release))?;
    let n = (len - from) as usize;
    guard.traffic.bytes_received += n as u64;
    Ok(BorrowResult::Here(memory, n))
}

/// Releases the slot of the borrowed message, after the program has read the message.
pub(crate) fn give_back(guard: &mut Guard<'_>) {
    if core::mem::take(&mut guard.borrowed) {
        let position = guard.owed;
        guard.endpoint().rx.release(position);
    }
}
