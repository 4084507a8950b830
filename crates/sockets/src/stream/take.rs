//! Receives bytes on the VI: from the ring, from held packets and from the overflow buffer.

use super::hold::{copy_held, hold, kind_of, next_in_ring, scan};
use super::packets::{
    consumed, count_arrival, packet_of, take_control, take_held_control, take_held_data, take_off,
};
use super::{Fault, ROOM, corrupt_here, failover, handler_queue, notify_writer, rx, word};
use crate::conn::{Guard, HELD, HasEndpoint, flag};
use sovia_proto::order::Take;
use sovia_proto::packet::Kind;
use sovia_proto::path::Rx;
use sovia_ring::endpoint::OverflowBuffer;
use sovia_sys::UserSliceMut;

/// Moves the direction in which this end receives to TCP, if the next packet on the VI is ToTcp or a failover
/// requires this. Returns true if the direction has moved.
pub fn is_returning(guard: &mut Guard<'_>) -> bool {
    failover::leaves_vi(guard)
        || is_next(guard, Kind::ToTcp) && take_held(guard, UserSliceMut::empty()).is_ok()
}

/// Returns true if the program has read all bytes before the peer's FIN.
pub fn is_ending(guard: &mut Guard<'_>) -> bool {
    guard.conn.has(flag::EOF) || is_next(guard, Kind::Fin)
}

/// Returns true if the next packet that a receive would consume is of kind `wanted`. Then this packet is the first
/// held packet.
fn is_next(guard: &mut Guard<'_>, wanted: Kind) -> bool {
    if guard.conn.rx() != Rx::Vi || guard.front != 0 {
        return false;
    }
    if guard.held_first == guard.held_end {
        if handler_queue::is_here(guard) {
            return false;
        }
        match next_in_ring(guard) {
            Ok(kind) if kind == Some(wanted) && scan(guard).is_ok() => {}
            Ok(_) => return false,
            Err(_) => {
                corrupt_here(guard);
                return false;
            }
        }
    }
    if guard.held[guard.held_first as usize % HELD].kind != wanted as u8 {
        return false;
    }
    // Coalesced bytes may come before the packet. These bytes are visible here, because they were published before
    // the packet.
    next(guard) == Take::Packet
}

/// Returns whether the next bytes of the stream are in a packet or are coalesced, as far as the peer has published
/// them.
fn next(guard: &Guard<'_>) -> Take {
    let line = &rx(guard).writer;
    let tail = line.load(word::TAIL);
    let after = line.load(word::AFTER) as u32;
    guard.taker.next(tail, after)
}

/// Returns true if a receive would find a held packet or coalesced bytes. Coalesced bytes do not count if they come
/// after packets that the handler thread has not queued yet.
pub(super) fn has_kept(guard: &Guard<'_>) -> bool {
    guard.held_first != guard.held_end
        || has_coalesced(guard) && (!guard.conn.has_handler() || next(guard) != Take::Packet)
}

/// Returns true if the overflow buffer has unread bytes.
#[inline]
pub(super) fn has_coalesced(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::TAIL) != guard.taker.head
}

/// Receives bytes from the VI, and returns their number. Returns 0 if the VI has no bytes now, or if the direction
/// has moved back to TCP.
pub(super) fn receive_vi(guard: &mut Guard<'_>, out: UserSliceMut<'_>) -> Result<usize, Fault> {
    receive_vi_here(guard, out)
}

/// Like [`receive_vi`], but inlined into its caller.
#[inline(always)]
pub(super) fn receive_vi_here(
    guard: &mut Guard<'_>,
    out: UserSliceMut<'_>,
) -> Result<usize, Fault> {
    let mut done = 0;
    let result = take(guard, out, &mut done);
    guard.traffic.bytes_received += done as u64;
    match result {
        // The program's buffer has a bad address. The bytes before this address were received, and the other bytes
        // stay on the VI.
        Err(Fault::BadAddress) if done > 0 => Ok(done),
        result => result.map(|()| done),
    }
}

#[inline(always)]
fn take(guard: &mut Guard<'_>, out: UserSliceMut<'_>, count: &mut usize) -> Result<(), Fault> {
    while *count < out.len() {
        let done = *count;
        let tail = rx(guard).writer.load(word::TAIL);
        if tail != guard.taker.head {
            let after = rx(guard).writer.load(word::AFTER) as u32;
            if let Take::Coalesced(n) = guard.taker.next(tail, after) {
                *count += take_coalesced(guard, n, out.skip(done))?;
                continue;
            }
        }
        if guard.held_first != guard.held_end {
            let n = take_held(guard, out.skip(done))?;
            *count += n;
            taken_before(guard, tail);
            if n == 0 && guard.conn.rx() != Rx::Vi || guard.conn.has(flag::EOF) {
                break;
            }
            continue;
        }
        if handler_queue::is_here(guard) {
            // Only the handler thread may take packets off the ring.
            break;
        }
        let Some(entry) = guard.endpoint().rx.head()? else {
            // The next coalesced bytes come after a packet that is not in the ring. A correct peer publishes that
            // packet before the coalesced bytes.
            if tail != guard.taker.head && done == 0 {
                return Err(Fault::Corrupt);
            }
            break;
        };
        let packet = packet_of(&entry)?;
        count_arrival(guard, packet)?;
        match packet.kind {
            Kind::Data => {
                let from = guard.front as usize;
                if from > entry.len as usize {
                    return Err(Fault::Corrupt);
                }
                let n = (entry.len as usize - from).min(out.len() - done);
                guard.endpoint_ref().rx.copy_head(&entry, from, out.skip(done).first(n))?;
                *count += n;
                if from + n == entry.len as usize {
                    take_off(guard, &entry)?;
                    taken_before(guard, tail);
                } else {
                    guard.front = (from + n) as u32;
                }
            }
            kind => {
                if kind.is_ordered() {
                    // Coalesced bytes may come before this packet. Loads TAIL again, because the peer may have
                    // published these bytes after the first load.
                    if let Take::Coalesced(n) = next(guard) {
                        *count += take_coalesced(guard, n, out.skip(done))?;
                        // The packet waits among the held packets. Its acknowledgements have already been counted.
                        hold(guard, &entry, kind)?;
                        continue;
                    }
                }
                if !take_control(guard, &entry, kind)? {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Called after a packet was taken. If coalesced bytes follow, notifies the peer's writer. The writer may have
/// reached its limit on unread bytes, and then waits for no acknowledgement.
#[inline(always)]
fn taken_before(guard: &Guard<'_>, tail: u64) {
    if tail != guard.taker.head {
        notify_writer(guard);
    }
}

fn take_coalesced(
    guard: &mut Guard<'_>,
    available: u64,
    out: UserSliceMut<'_>,
) -> Result<usize, Fault> {
    if available > OverflowBuffer::LEN as u64 {
        return Err(Fault::Corrupt);
    }
    let start = rx(guard).writer.load(word::START);
    let at = (guard.taker.head.wrapping_sub(start) % OverflowBuffer::LEN as u64) as usize;
    let n = (available as usize).min(out.len()).min(OverflowBuffer::LEN - at);
    if !guard.endpoint_ref().rx.overflow_buffer().read(at, out.first(n)) {
        // The range to copy lies within the overflow buffer, so the bad address lies in the program's buffer.
        return Err(Fault::BadAddress);
    }
    guard.taker.head += n as u64;
    rx(guard).reader.store(word::HEAD, guard.taker.head);
    if available - n as u64 <= ROOM {
        notify_writer(guard);
    }
    Ok(n)
}

pub(super) fn take_held(guard: &mut Guard<'_>, out: UserSliceMut<'_>) -> Result<usize, Fault> {
    let index = guard.held_first as usize % HELD;
    let held = guard.held[index];
    let Some(kind) = kind_of(held.kind) else { return Err(Fault::Corrupt) };
    if kind != Kind::Data {
        take_held_control(guard, kind)?;
        return Ok(0);
    }
    let from = guard.front as usize;
    if from > held.len as usize {
        return Err(Fault::Corrupt);
    }
    let n = (held.len as usize - from).min(out.len());
    copy_held(guard, &held, from, out.first(n))?;
    if from + n == held.len as usize {
        take_held_data(guard, held.len);
        consumed(guard, held.len, held.pooled.then_some(held.release))?;
    } else {
        guard.front = (from + n) as u32;
    }
    Ok(n)
}
