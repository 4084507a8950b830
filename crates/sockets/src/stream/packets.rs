//! What one packet does when it arrives, when it has been consumed, and what goes without bytes.

use super::{Fault, tell_writer, undelivered, word};

use crate::conn::{Guard, HELD, HasEndpoint, Taking, flag};
use core::sync::atomic::{Ordering, compiler_fence};
use sovia_proto::packet::{Immediate, Kind};
use sovia_proto::path::{Grant, Rx, Seen};
use via_shm::ring::Entry;

/// Takes the head message off the queue; the pool's position to release, if its bytes are there.
#[inline(always)]
pub(super) fn advance(
    guard: &mut Guard<'_>,
    entry: &Entry,
) -> Result<Option<u64>, via_shm::Corrupt> {
    let position = guard.endpoint().rx.advance(entry);
    guard.conn.expect_at(guard.endpoint_ref().rx.next_at());
    position
}

/// What an entry of the ring is.
///
/// Data without bytes and acknowledgements of nothing are damage: no end sends them, and they fill neither the
/// program's buffer nor the window, so a peer that goes on sending them would hold its reader for as long as it likes.
#[inline]
pub(super) fn packet_of(entry: &Entry) -> Result<Immediate, Fault> {
    let packet = Immediate::decode(entry.immediate)?;
    match packet.kind {
        Kind::Data if entry.len == 0 => Err(Fault::Corrupt),
        Kind::Ack if packet.acks == 0 => Err(Fault::Corrupt),
        _ => Ok(packet),
    }
}

/// Counts the arrival of the entry at the ring's head, once, however often it is looked at and by
/// whichever thread.
#[inline(always)]
pub(super) fn count_arrival(guard: &mut Guard<'_>, packet: Immediate) -> Result<(), Fault> {
    let n = guard.endpoint_ref().rx.received();
    if guard.arrivals == n {
        // In this order: what a process has counted that dies here is never counted twice.
        guard.arrivals = n.wrapping_add(1);
        compiler_fence(Ordering::SeqCst);
        guard.flow.arrived(packet)?;
    }
    Ok(())
}

/// Takes the data packet at the ring's head off, which has been read to its end.
#[inline(always)]
pub(super) fn take_off(guard: &mut Guard<'_>, entry: &Entry) -> Result<(), Fault> {
    let release = take_data(guard, entry)?;
    consumed(guard, entry.len, release)
}

/// The first half of that: [`consumed`] is to follow, with the pool's position that this gives.
#[inline(always)]
pub(super) fn take_data(guard: &mut Guard<'_>, entry: &Entry) -> Result<Option<u64>, Fault> {
    let (packets, bytes) = once_consumed(guard, entry.len);
    let taking = Taking::FromRing(guard.endpoint_ref().rx.received(), packets, bytes);
    guard.take(taking);
    Ok(advance(guard, entry)?)
}

/// The same of the first of the held packets, which is data of that length.
pub(super) fn take_held_data(guard: &mut Guard<'_>, len: u32) {
    let (packets, bytes) = once_consumed(guard, len);
    let taking = Taking::FromHeld(guard.held_first, packets, bytes);
    guard.take(taking);
    guard.held_first = guard.held_first.wrapping_add(1);
}

/// The ordered packets consumed once the next one has been, which is data of that length, and the bytes in them.
#[inline(always)]
fn once_consumed(guard: &Guard<'_>, len: u32) -> (u32, u32) {
    (guard.taker.packets.wrapping_add(1), guard.bytes_taken.wrapping_add(len))
}

/// A data packet has been read to its end.
#[inline(always)]
pub(super) fn consumed(guard: &mut Guard<'_>, len: u32, release: Option<u64>) -> Result<(), Fault> {
    guard.front = 0;
    guard.bytes_taken = guard.bytes_taken.wrapping_add(len);
    super::rx(guard).reader.store(word::TAKEN_BYTES, u64::from(guard.bytes_taken));
    if let Some(position) = release {
        if guard.borrowed {
            // In order: what lies before it is being read still.
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

/// Finishes what a dead receiver had begun.
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
        // What is still in the ring is taken again.
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

/// Does what a packet without bytes does, of which a part may have been done.
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

/// Sends what is owed, alone.
fn acknowledge(guard: &mut Guard<'_>) -> Result<(), Fault> {
    let packet = guard.flow.send(Kind::Ack);
    if guard.endpoint().tx.send(packet.encode(), &[])? {
        guard.count_sent(0);
        tell_writer(guard);
    } else {
        guard.flow.unsend(packet);
    }
    Ok(())
}

/// Ordered packets consumed once one of that kind has been.
fn after(guard: &Guard<'_>, kind: Kind) -> u32 {
    guard.taker.packets.wrapping_add(u32::from(matches!(kind, Kind::Fin | Kind::ToTcp)))
}

/// Takes a packet without bytes off the ring; false if nothing after it may be read here.
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

/// Takes the first of the held packets, one without bytes, likewise.
pub(super) fn take_held_control(guard: &mut Guard<'_>, kind: Kind) -> Result<bool, Fault> {
    let taking = Taking::HeldControl(guard.held_first, kind, after(guard, kind));
    guard.take(taking);
    guard.held_first = guard.held_first.wrapping_add(1);
    let more = control(guard, kind);
    guard.take(Taking::Nothing);
    more
}

/// What a packet without bytes does.
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

/// The direction in which we receive goes on on TCP; nothing on the VI is unread.
fn come_to_tcp(guard: &Guard<'_>) {
    if guard.own.grant == Grant::Revoked as u64 {
        // The sender waits for that.
        undelivered::answer(guard, Seen::ToTcp, 0);
        tell_writer(guard);
    }
    guard.conn.set_rx(Rx::Back);
    guard.conn.set(flag::KERNEL_SOCKET);
}

/// Sends a packet without bytes that no window holds back.
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
    fn packets_that_say_nothing_are_damage() {
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
