//! Places in the pools: messages that the program writes and reads where they lie.
//!
//! The pools are used and given back in order. So while a place is lent to write into, no other
//! message is placed: larger ones are gathered meanwhile ([`super::send`]). And while one is
//! borrowed to be read, what is consumed after it is released with it.

use super::hold::{kind_of, look};
use super::packets::{consumed, count_arrival, packet_of, take_data, take_held_data};
use super::send::{cannot, goes_over_vi, posted, said, send_vi};
use super::{Fault, Put, backlog, failed, rx, tx, word};
use crate::conn::{Guard, HELD, HasEndpoint, flag};
use core::ptr::NonNull;
use sovia_proto::configuration::Transfer;
use sovia_proto::order::{Next, Take};
use sovia_proto::packet::Kind;
use sovia_proto::path::Rx;
use sovia_sys::UserSlice;
use via_shm::ring::INLINE;

/// How a place was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Here it is.
    Here(NonNull<u8>),
    /// There may be one when the receiver has read on: a number that changes as it does.
    NotNow(u64),
    /// There is none to be had.
    Nowhere,
}

/// A place for a message of up to `len` bytes, if the next one could go by the pool.
pub(crate) fn lend(guard: &mut Guard<'_>, len: u32) -> Place {
    let conn = guard.conn;
    if !goes_over_vi(conn) || conn.has(flag::FALLING_BACK) || guard.endpoint_ref().tx.has_lent() {
        return Place::Nowhere;
    }
    match may_send(guard) {
        Ok(true) => {}
        Ok(false) => return Place::NotNow(lend_progress(guard)),
        Err(_) => return Place::Nowhere,
    }
    let mut place = guard.endpoint().tx.lend(len);
    if place == Ok(None) && backlog::more_pool(guard) {
        place = guard.endpoint().tx.lend(len);
    }
    match place {
        Ok(Some(memory)) => Place::Here(memory),
        Ok(None) => Place::NotNow(lend_progress(guard)),
        Err(_) => Place::Nowhere,
    }
}

/// Whether a message of so many bytes is one packet that is sent at once, and by a copy.
pub(crate) fn packets_go_at_once(guard: &Guard<'_>, len: usize) -> bool {
    len <= guard.protocol.chunk as usize
        && guard.protocol.transfer == Transfer::Auto
        && !guard.conn.has(flag::COMBINES)
}

/// Changes as the receiver reads.
pub(crate) fn lend_progress(guard: &Guard<'_>) -> u64 {
    let direction = tx(guard);
    direction
        .reader
        .load(word::HEAD)
        .wrapping_add(direction.credit.released())
        .wrapping_add(u64::from(guard.flow.unacked()) << 48)
}

/// Whether the window and the order let a packet go.
fn may_send(guard: &mut Guard<'_>) -> Result<bool, Fault> {
    if guard.gatherer.is_gathering() {
        let taken = tx(guard).reader.load(word::HEAD);
        if guard.gatherer.next(taken) == Next::Gather {
            return Ok(false);
        }
    }
    if !guard.flow.can_send() {
        look(guard)?;
    }
    Ok(guard.flow.can_send())
}

/// Sends `bytes`, of which the lent place holds `all`: as one packet from there if they are all of it
/// and the window lets them go, else by a copy. The place is taken back once everything is sent.
pub(crate) fn commit(guard: &mut Guard<'_>, fd: i32, bytes: UserSlice<'_>, all: usize) -> Put {
    if let Some(put) = cannot(guard, fd) {
        return put;
    }
    let sent = commit_vi(guard, bytes, all);
    said(guard, fd, bytes, sent)
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
    // The place stays lent, so nothing is copied to where it lies: it goes into the queue's entry,
    // or is gathered.
    let n = send_vi(guard, bytes)?;
    if n == bytes.len() {
        guard.endpoint().tx.take_back();
    }
    Ok(n)
}

/// The lent place is given up; nothing of it is sent.
pub(crate) fn take_back(guard: &mut Guard<'_>) {
    guard.endpoint().tx.take_back();
}

/// What a look for a message in the pool found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Find {
    /// That many bytes there; they are consumed.
    Here(NonNull<u8>, usize),
    /// Nothing, or something that lies in the queue itself, or an end.
    Small,
    /// Bytes that were gathered.
    Bulk,
    /// The VI is not where to look, or a message is borrowed already.
    Elsewhere,
    /// An error for the program.
    Failed(i32),
}

/// Takes the next message for the program to read where it lies, if that is the pool.
pub(crate) fn borrow(guard: &mut Guard<'_>, fd: i32) -> Find {
    let conn = guard.conn;
    if conn.rx() != Rx::Vi || conn.has(flag::FALLING_BACK | flag::CORRUPT) || guard.borrowed {
        return Find::Elsewhere;
    }
    match borrow_vi(guard) {
        Ok(find) => find,
        Err(fault) => Find::Failed(failed(conn, fd, fault)),
    }
}

fn borrow_vi(guard: &mut Guard<'_>) -> Result<Find, Fault> {
    let line = &rx(guard).writer;
    let tail = line.load(word::TAIL);
    if tail != guard.taker.head {
        let after = line.load(word::AFTER) as u32;
        if let Take::Gathered(_) = guard.taker.next(tail, after) {
            return Ok(Find::Bulk);
        }
    }
    let from = guard.front;
    let (at, len, release);
    if guard.held_first != guard.held_end {
        let held = guard.held[guard.held_first as usize % HELD];
        if kind_of(held.kind) != Some(Kind::Data) || !held.pooled {
            return Ok(Find::Small);
        }
        (at, len, release) = (held.at, held.len, held.release);
        if from >= len {
            return Err(Fault::Corrupt);
        }
        take_held_data(guard, len);
    } else if guard.conn.is_handled() {
        return Ok(Find::Small);
    } else {
        let Some(entry) = guard.endpoint_ref().rx.head()? else { return Ok(Find::Small) };
        let packet = packet_of(&entry)?;
        let (Kind::Data, Some(place)) = (packet.kind, entry.pool_offset) else {
            return Ok(Find::Small);
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
    Ok(Find::Here(memory, n))
}

/// The program has read what it borrowed.
pub(crate) fn give_back(guard: &mut Guard<'_>) {
    if core::mem::take(&mut guard.borrowed) {
        let position = guard.owed;
        guard.endpoint().rx.release(position);
    }
}
