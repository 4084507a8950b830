//! Holds packets that have been taken off the ring until the program reads them.
//!
//! In the ring, acknowledgements lie behind unread data packets. A sender whose window is used up must find the
//! acknowledgements, so it takes all packets off the ring ([`scan`]). The data packets are then held here. Their
//! number never exceeds the window.

use super::packets::{advance, count_arrival, packet_of, take_control};
use super::{Fault, handler_queue};
use crate::conn::{Guard, HELD, HasEndpoint, Held, Taking};
use sovia_proto::packet::{Immediate, Kind};
use sovia_ring::ring::Entry;
use sovia_signal::access::{self, BadAddress};
use sovia_sys::UserSliceMut;

pub(super) fn copy_held(
    guard: &Guard<'_>,
    held: &Held,
    from: usize,
    out: UserSliceMut<'_>,
) -> Result<(), BadAddress> {
    if held.pooled {
        guard.endpoint_ref().rx.copy_pooled(held.at, held.len, from, out)
    } else if let Some(bytes) = held.bytes.get(from..from + out.len()) {
        access::write(out, bytes)
    } else {
        Ok(())
    }
}

pub(super) fn kind_of(n: u8) -> Option<Kind> {
    Immediate::decode(u32::from(n) << 24).ok().map(|i| i.kind)
}

/// Takes all packets off the ring: applies acknowledgements, and holds the other packets for the program.
pub(super) fn scan(guard: &mut Guard<'_>) -> Result<(), Fault> {
    while guard.held_end.wrapping_sub(guard.held_first) < HELD as u32 {
        let Some(entry) = guard.endpoint_ref().rx.head()? else { break };
        let packet = packet_of(&entry)?;
        count_arrival(guard, packet)?;
        if packet.kind.is_ordered() {
            hold(guard, &entry, packet.kind)?;
        } else {
            take_control(guard, &entry, packet.kind)?;
        }
    }
    Ok(())
}

/// Takes acknowledgements off the ring, up to the first ordered packet. Returns the kind of this packet, and leaves
/// the packet in the ring.
pub(super) fn next_in_ring(guard: &mut Guard<'_>) -> Result<Option<Kind>, Fault> {
    while let Some(entry) = guard.endpoint_ref().rx.head()? {
        let packet = packet_of(&entry)?;
        if packet.kind.is_ordered() {
            return Ok(Some(packet.kind));
        }
        count_arrival(guard, packet)?;
        take_control(guard, &entry, packet.kind)?;
    }
    Ok(None)
}

/// Like [`scan`], but does nothing if a handler thread takes packets off the ring.
#[inline]
pub(super) fn look(guard: &mut Guard<'_>) -> Result<(), Fault> {
    if handler_queue::is_here(guard) { Ok(()) } else { scan(guard) }
}

/// Moves the packet at the ring's head to the held packets.
pub(super) fn hold(guard: &mut Guard<'_>, entry: &Entry, kind: Kind) -> Result<(), Fault> {
    let mut held = Held {
        kind: kind as u8,
        pooled: entry.pool_offset.is_some(),
        len: entry.len,
        at: entry.pool_offset.unwrap_or(0),
        release: 0,
        bytes: [0; _],
    };
    if !held.pooled {
        let n = entry.len as usize;
        guard.endpoint_ref().rx.copy_head(entry, 0, &mut held.bytes[..n])?;
    }
    let (n, index) = (guard.held_end, guard.held_end as usize % HELD);
    guard.held[index] = held;
    let taking = Taking::ToHeld(guard.endpoint_ref().rx.received(), n);
    guard.take(taking);
    let release = advance(guard, entry)?;
    guard.held[index].release = release.unwrap_or(0);
    guard.held_end = n.wrapping_add(1);
    guard.take(Taking::Nothing);
    Ok(())
}
