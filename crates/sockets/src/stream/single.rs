//! Fast path: sends or receives a message of one packet, on a connection with no pending work. Most calls of
//! programs take this path.
//!
//! If a call needs more work, the functions here transfer no bytes, and the caller must call [`super::send`] or
//! [`super::receive`].

use super::packets::{count_arrival, packet_of, take_off};
use super::send::{count_and_notify, posted, receiver};
use super::state::{self, Receiver};
use super::take::receive_vi;
use super::{Fault, Got, failed, rx, word};
use crate::conn::{Guard, HasEndpoint, flag};
use sovia_proto::packet::{Immediate, Kind};
use sovia_proto::path::{Rx, Tx};
use sovia_ring::ring::Entry;
use sovia_sys::{UserSlice, UserSliceMut, cache};

/// Flags of a connection with pending work for a send. If one is set, a send cannot take the fast path.
const SENDS_MORE: u32 = state::SENDS | flag::COMBINES | flag::UNTIL_FULL | flag::TORN;
/// Flags of a connection with pending work for a receive. If one is set, a receive cannot take the fast path.
const RECEIVES_MORE: u32 =
    state::RECEIVES | flag::RETURNING | flag::WITHHELD | flag::HAS_HANDLER | flag::TORN;

/// Sends `bytes` as one packet. Returns false, without sending a byte, if the send cannot take the fast path.
#[inline(always)]
pub(crate) fn send(guard: &mut Guard<'_>, bytes: UserSlice<'_>) -> bool {
    let conn = guard.conn;
    if conn.has(SENDS_MORE)
        || conn.tx() != Tx::Vi
        || bytes.len().wrapping_sub(1) >= guard.protocol.single as usize
        || guard.coalescer.is_coalescing()
        || !guard.flow.can_send()
        || receiver(guard) != Receiver::Listens
    {
        return false;
    }
    let packet = guard.flow.send(Kind::Data);
    if !matches!(guard.endpoint().tx.send(packet.encode(), bytes), Ok(true)) {
        // The caller then calls [`super::send`], which meets the same obstacle and handles it.
        guard.flow.unsend(packet);
        return false;
    }
    posted(guard, bytes.len());
    count_and_notify(guard, bytes.len());
    true
}

/// Receives available bytes into `out`, which must not be empty. Returns `None` if the receive cannot take the fast
/// path.
#[inline(always)]
pub(crate) fn receive(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Option<Got> {
    let conn = guard.conn;
    if conn.has(RECEIVES_MORE)
        || conn.rx() != Rx::Vi
        || guard.unnotified != 0
        || guard.front != 0
        || guard.held_first != guard.held_end
        || rx(guard).writer.load(word::TAIL) != guard.taker.head
    {
        return None;
    }
    let Some(entry) = guard.endpoint_ref().rx.head().ok()? else {
        cache::look_in_turn();
        return Some(Got::Nothing);
    };
    let n = entry.len as usize;
    let packet =
        packet_of(&entry).ok().filter(|packet| packet.kind == Kind::Data && n <= out.len())?;
    match take(guard, &entry, packet, out.first(n)) {
        Ok(()) => {}
        // The packet stays in the ring, so [`super::receive`] can take it. The packet's arrival is not counted
        // again.
        Err(Fault::BadAddress) => return None,
        Err(fault) => return Some(Got::Failed(failed(conn, fd, fault))),
    }
    guard.traffic.bytes_received += n as u64;
    if n < out.len() && guard.endpoint_ref().rx.has_message() {
        return Some(and_more(guard, fd, out, n));
    }
    Some(Got::Bytes(n))
}

/// Copies the packet at the head of the ring into `out`, and removes the packet from the ring.
#[inline(always)]
fn take(
    guard: &mut Guard<'_>,
    entry: &Entry,
    packet: Immediate,
    out: UserSliceMut<'_>,
) -> Result<(), Fault> {
    count_arrival(guard, packet)?;
    guard.endpoint_ref().rx.copy_head(entry, 0, out)?;
    take_off(guard, entry)
}

/// Receives further packets into `out`, after the first `n` bytes. Returns the total number of bytes.
#[inline(never)]
fn and_more(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>, n: usize) -> Got {
    match receive_vi(guard, out.skip(n)) {
        Ok(more) => Got::Bytes(n + more),
        // The first `n` bytes were received. The next call reports the bad address.
        Err(Fault::BadAddress) => Got::Bytes(n),
        Err(fault) => Got::Failed(failed(guard.conn, fd, fault)),
    }
}
