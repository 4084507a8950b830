//! What one packet does when it arrives, when it has been consumed, and what goes without bytes.

use super::{Fault, store, tell_writer, word};
use crate::conn::{Guard, HELD, Taking, flag};
use sovia_proto::packet::{Immediate, Kind};
use sovia_proto::path::Rx;

/// Counts the arrival of the entry at the ring's head, once, however often it is looked at and by
/// whomever.
pub(super) fn count_arrival(guard: &mut Guard<'_>, packet: Immediate) -> Result<(), Fault> {
    let n = guard.endpoint_ref().rx.received();
    if guard.arrivals == n {
        guard.arrivals = n.wrapping_add(1);
        guard.flow.arrived(packet)?;
    }
    Ok(())
}

/// A data packet has been read to its end.
#[inline]
pub(super) fn consumed(guard: &mut Guard<'_>, len: u32, release: Option<u64>) -> Result<(), Fault> {
    guard.front = 0;
    guard.bytes_taken = guard.bytes_taken.wrapping_add(len);
    store(&super::rx(guard).reader, word::TAKEN_BYTES, u64::from(guard.bytes_taken));
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
    let packets = match core::mem::take(&mut guard.taking) {
        Taking::Nothing => return,
        Taking::FromRing(n, packets) => {
            if guard.endpoint_ref().rx.received() == n
                && let Ok(Some(entry)) = guard.endpoint_ref().rx.head()
                && let Ok(Some(position)) = guard.endpoint().rx.advance(&entry)
            {
                guard.endpoint().rx.release(position);
            }
            packets
        }
        Taking::FromHeld(n, packets) => {
            guard.held_first = n.wrapping_add(1);
            packets
        }
        Taking::ToHeld(n, end) => {
            if guard.endpoint_ref().rx.received() != n {
                guard.held[end as usize % HELD].release = guard.endpoint_ref().rx.taken();
                guard.held_end = end.wrapping_add(1);
            }
            return;
        }
    };
    guard.front = 0;
    guard.taker.packets = packets;
}

/// Sends what is owed, alone.
fn acknowledge(guard: &mut Guard<'_>) -> Result<(), Fault> {
    let before = guard.flow;
    let packet = guard.flow.send(Kind::Ack).encode();
    if guard.endpoint().tx.send(packet, &[])? {
        guard.counted = guard.endpoint_ref().tx.sent();
        let conn = guard.conn;
        tell_writer(conn, guard.endpoint_ref());
    } else {
        guard.flow = before;
    }
    Ok(())
}

/// A packet without bytes; false if nothing after it may be read here.
pub(super) fn control(guard: &mut Guard<'_>, kind: Kind) -> Result<bool, Fault> {
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
            conn.set_rx(Rx::Back);
            conn.set(flag::ANCHOR);
            Ok(false)
        }
        Kind::Wakeup | Kind::Req => Err(Fault::Damaged),
    }
}

/// Sends a packet without bytes that no window holds back.
pub(crate) fn send_control(guard: &mut Guard<'_>, kind: Kind) {
    let packet = guard.flow.send(kind).encode();
    if guard.endpoint().tx.send(packet, &[]) == Ok(true) && kind.is_ordered() {
        guard.gatherer.packets = guard.gatherer.packets.wrapping_add(1);
    }
    guard.counted = guard.endpoint_ref().tx.sent();
}
