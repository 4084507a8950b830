//! Handles single packets: counts their arrival, counts their consumption, and applies packets without data.

use super::{Fault, notify_writer, undelivered, word};

use crate::conn::{Guard, HELD, HasEndpoint, Taking, flag};
use core::sync::atomic::{Ordering, compiler_fence};
use sovia_proto::packet::{Immediate, Kind};
use sovia_proto::path::{Grant, Rx, Seen};
use sovia_ring::ring::Entry;

/// Removes `entry`, which must be at the ring's head. Returns the pool position to release, if the entry's bytes
/// lie in the pool.
#[inline(always)]
pub(super) fn advance(
    guard: &mut Guard<'_>,
    entry: &Entry,
) -> Result<Option<u64>, sovia_ring::Corrupt> {
    let position = guard.endpoint().rx.advance(entry);
    guard.conn.expect_at(guard.endpoint_ref().rx.next_at());
    position
}

/// Decodes an entry of the ring.
///
/// Data packets without bytes, and acknowledgements of 0 packets, count as corrupt. A correct peer sends no such
/// packets. A faulty peer could send them without limit, and the reader would never return.
#[inline]
pub(super) fn packet_of(entry: &Entry) -> Result<Immediate, Fault> {
    let packet = Immediate::decode(entry.immediate)?;
    match packet.kind {
        Kind::Data if entry.len == 0 => Err(Fault::Corrupt),
        Kind::Ack if packet.acks == 0 => Err(Fault::Corrupt),
        _ => Ok(packet),
    }
}

/// Counts the arrival of the entry at the ring's head. Does nothing if the entry's arrival was already counted.
#[inline(always)]
pub(super) fn count_arrival(guard: &mut Guard<'_>, packet: Immediate) -> Result<(), Fault> {
    let n = guard.endpoint_ref().rx.received();
    if guard.arrivals == n {
        // `arrivals` is stored before `flow` counts the packet. So if the process dies between these steps, no
        // arrival is counted twice.
        guard.arrivals = n.wrapping_add(1);
        compiler_fence(Ordering::SeqCst);
        guard.flow.arrived(packet)?;
    }
    Ok(())
}

/// Removes the data packet at the ring's head, which the program has read completely. Counts the packet as
/// consumed.
#[inline(always)]
pub(super) fn take_off(guard: &mut Guard<'_>, entry: &Entry) -> Result<(), Fault> {
    let release = take_data(guard, entry)?;
    consumed(guard, entry.len, release)
}

/// Removes the data packet at the ring's head. The caller must then call [`consumed`] with the returned pool
/// position.
#[inline(always)]
pub(super) fn take_data(guard: &mut Guard<'_>, entry: &Entry) -> Result<Option<u64>, Fault> {
    let (packets, bytes) = once_consumed(guard, entry.len);
    let taking = Taking::FromRing(guard.endpoint_ref().rx.received(), packets, bytes);
    guard.take(taking);
    Ok(advance(guard, entry)?)
}

/// Removes the first held packet, which is a data packet of `len` bytes. The caller must then call [`consumed`].
pub(super) fn take_held_data(guard: &mut Guard<'_>, len: u32) {
    let (packets, bytes) = once_consumed(guard, len);
    let taking = Taking::FromHeld(guard.held_first, packets, bytes);
    guard.take(taking);
    guard.held_first = guard.held_first.wrapping_add(1);
}

/// Returns the number of consumed ordered packets, and of bytes in these packets, after one more data packet of
/// `len` bytes.
#[inline(always)]
fn once_consumed(guard: &Guard<'_>, len: u32) -> (u32, u32) {
    (guard.taker.packets.wrapping_add(1), guard.bytes_taken.wrapping_add(len))
}

/// Counts a data packet of `len` bytes as consumed, and releases its pool memory. Sends an acknowledgement if one
/// is due.
#[inline(always)]
pub(super) fn consumed(guard: &mut Guard<'_>, len: u32, release: Option<u64>) -> Result<(), Fault> {
    guard.front = 0;
    guard.bytes_taken = guard.bytes_taken.wrapping_add(len);
    super::rx(guard).reader.store(word::TAKEN_BYTES, u64::from(guard.bytes_taken));
    if let Some(position) = release {
        if guard.borrowed {
            // Pool memory is released in order, and the program is still reading an earlier message in the pool.
            guard.owed = position;
        } else {
            guard.endpoint().rx.release(position);
        }
    }
    guard.taker.packets = guard.taker.packets.wrapping_add(1);
    guard.take(Taking::Nothing);
    if guard.flow.consumed() {
        acknowledge(guard)?;
    }
    Ok(())
}

/// Completes the change to the ring or the held packets that a dead thread had begun.
pub(super) fn finish_taking(guard: &mut Guard<'_>) {
    guard.endpoint().rx.put_back();
    let taking = guard.taking();
    let received = guard.endpoint_ref().rx.received();
    match taking {
        Taking::Nothing => return,
        Taking::FromRing(n, packets, bytes) => {
            if received == n
                && let Ok(Some(entry)) = guard.endpoint_ref().rx.head()
                && let Ok(Some(position)) = advance(guard, &entry)
            {
                guard.endpoint().rx.release(position);
            }
            (guard.taker.packets, guard.bytes_taken) = (packets, bytes);
            guard.front = 0;
        }
        Taking::FromHeld(n, packets, bytes) => {
            guard.held_first = n.wrapping_add(1);
            (guard.taker.packets, guard.bytes_taken) = (packets, bytes);
            guard.front = 0;
        }
        Taking::ToHeld(n, end) => {
            if received != n {
                guard.held[end as usize % HELD].release = guard.endpoint_ref().rx.taken();
                guard.held_end = end.wrapping_add(1);
            }
        }
        // If the packet is still in the ring, the change had no effect yet, and the next receive takes the packet.
        Taking::Control(n, kind, packets) => {
            if received != n {
                finish_control(guard, kind, packets);
            }
        }
        Taking::HeldControl(n, kind, packets) => {
            guard.held_first = n.wrapping_add(1);
            finish_control(guard, kind, packets);
        }
    }
    guard.take(Taking::Nothing);
}

/// Completes the effect of a packet without data. The dead thread may have applied a part of this effect.
fn finish_control(guard: &mut Guard<'_>, kind: Kind, packets: u32) {
    let conn = guard.conn;
    match kind {
        Kind::Fin => {
            let _ = guard.closing.arrived(Kind::Fin);
            conn.set(flag::EOF);
        }
        Kind::FinAck => {
            let _ = guard.closing.arrived(Kind::FinAck);
        }
        Kind::ToTcp => come_to_tcp(guard),
        Kind::Ack | Kind::Data | Kind::Wakeup | Kind::Req => {}
    }
    guard.taker.packets = packets;
}

/// Sends the owed acknowledgements in a packet of their own.
fn acknowledge(guard: &mut Guard<'_>) -> Result<(), Fault> {
    let packet = guard.flow.send(Kind::Ack);
    if guard.endpoint().tx.send(packet.encode(), &[])? {
        guard.count_sent(0);
        notify_writer(guard);
    } else {
        guard.flow.unsend(packet);
    }
    Ok(())
}

/// Returns the number of consumed ordered packets after a packet of `kind` is consumed.
fn after(guard: &Guard<'_>, kind: Kind) -> u32 {
    guard.taker.packets.wrapping_add(u32::from(matches!(kind, Kind::Fin | Kind::ToTcp)))
}

/// Removes a packet without data from the ring, and applies the packet. Returns false if the packet was the last
/// one that this end reads on the VI.
pub(super) fn take_control(
    guard: &mut Guard<'_>,
    entry: &Entry,
    kind: Kind,
) -> Result<bool, Fault> {
    let taking = Taking::Control(guard.endpoint_ref().rx.received(), kind, after(guard, kind));
    guard.take(taking);
    advance(guard, entry)?;
    let more = control(guard, kind);
    guard.take(Taking::Nothing);
    more
}

/// Removes the first held packet, which has no data, and applies the packet. Returns false if the packet was the
/// last one that this end reads on the VI.
pub(super) fn take_held_control(guard: &mut Guard<'_>, kind: Kind) -> Result<bool, Fault> {
    let taking = Taking::HeldControl(guard.held_first, kind, after(guard, kind));
    guard.take(taking);
    guard.held_first = guard.held_first.wrapping_add(1);
    let more = control(guard, kind);
    guard.take(Taking::Nothing);
    more
}

/// Applies a packet without data. Returns false if the packet was the last one that this end reads on the VI.
fn control(guard: &mut Guard<'_>, kind: Kind) -> Result<bool, Fault> {
    let conn = guard.conn;
    match kind {
        Kind::Ack => Ok(true),
        Kind::Data => Ok(true),
        Kind::Fin => {
            guard.taker.packets = guard.taker.packets.wrapping_add(1);
            if guard.closing.arrived(Kind::Fin)? {
                send_control(guard, Kind::FinAck);
            }
            conn.set(flag::EOF);
            Ok(false)
        }
        Kind::FinAck => {
            guard.closing.arrived(Kind::FinAck)?;
            Ok(true)
        }
        Kind::ToTcp => {
            guard.taker.packets = guard.taker.packets.wrapping_add(1);
            come_to_tcp(guard);
            Ok(false)
        }
        Kind::Wakeup | Kind::Req => Err(Fault::Corrupt),
    }
}

/// Moves the direction in which this end receives to TCP. Called when no byte on the VI is unread.
fn come_to_tcp(guard: &Guard<'_>) {
    if guard.own.grant == Grant::Revoked as u64 {
        // The sender waits for the number of unread bytes, which is 0.
        undelivered::answer(guard, Seen::ToTcp, 0);
        notify_writer(guard);
    }
    guard.conn.set_rx(Rx::Back);
    guard.conn.set(flag::KERNEL_SOCKET);
}

/// Sends a packet without data. Works even if the window is used up.
pub(super) fn send_control(guard: &mut Guard<'_>, kind: Kind) {
    let packet = guard.flow.send(kind).encode();
    if guard.endpoint().tx.send(packet, &[]) == Ok(true) {
        guard.count_sent(u32::from(kind.is_ordered()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_without_content_are_corrupt() {
        let is_one = |kind, acks, len| {
            let immediate = Immediate { kind, acks }.encode();
            packet_of(&Entry { immediate, len, pool_offset: None }).is_ok()
        };
        assert!(is_one(Kind::Data, 0, 1) && is_one(Kind::Ack, 1, 0));
        assert!(is_one(Kind::Fin, 0, 0) && is_one(Kind::FinAck, 0, 0) && is_one(Kind::ToTcp, 0, 0));
        assert!(!is_one(Kind::Data, 1, 0));
        assert!(!is_one(Kind::Ack, 0, 0));
    }
}
