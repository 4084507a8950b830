//! Taking bytes off the VI, from where they lie: the ring, the packets held back, what is gathered.

use super::hold::{copy_held, hold, kind_of, next_in_ring, scan};
use super::packets::{
    consumed, count_arrival, packet_of, take_control, take_held_control, take_held_data, take_off,
};
use super::{Fault, ROOM, corrupt_here, failover, handled, rx, tell_writer, word};
use crate::conn::{Guard, HELD, HasEndpoint, flag};
use sovia_proto::order::Take;
use sovia_proto::packet::Kind;
use sovia_proto::path::Rx;
use sovia_sys::UserSliceMut;
use via_shm::endpoint::Area;

/// Whether the direction in which we receive goes back to TCP here; takes the packet (ToTcp) that ends it.
pub fn is_returning(guard: &mut Guard<'_>) -> bool {
    failover::leaves_vi(guard)
        || is_next(guard, Kind::ToTcp) && take_held(guard, UserSliceMut::empty()).is_ok()
}

/// Whether the direction in which we receive ends here: nothing is unread before the peer's FIN.
pub fn is_ending(guard: &mut Guard<'_>) -> bool {
    guard.conn.has(flag::EOF) || is_next(guard, Kind::Fin)
}

/// Whether a packet of that kind is the next that a receive would take. It is among those held then.
fn is_next(guard: &mut Guard<'_>, wanted: Kind) -> bool {
    if guard.conn.rx() != Rx::Vi || guard.front != 0 {
        return false;
    }
    if guard.held_first == guard.held_end {
        if handled::is_here(guard) {
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
    // What was gathered before the packet was sent is visible now that the packet is.
    next(guard) == Take::Packet
}

/// What comes next of what has been published by now.
fn next(guard: &Guard<'_>) -> Take {
    let line = &rx(guard).writer;
    let tail = line.load(word::TAIL);
    let after = line.load(word::AFTER) as u32;
    guard.taker.next(tail, after)
}

/// Whether a receive finds something without the packets that a thread of Sovia's has yet to handle: packets that are held,
/// or gathered bytes that come next. Gathered bytes behind such packets are not to be had before them.
pub(super) fn has_kept(guard: &Guard<'_>) -> bool {
    guard.held_first != guard.held_end
        || has_gathered(guard) && (!guard.conn.is_handled() || next(guard) != Take::Packet)
}

/// Whether gathered bytes have been published that were not taken.
#[inline]
pub(super) fn has_gathered(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::TAIL) != guard.taker.head
}

/// Takes bytes from the VI; 0 if there are none now, or the direction has gone back to TCP.
pub(super) fn receive_vi(guard: &mut Guard<'_>, out: UserSliceMut<'_>) -> Result<usize, Fault> {
    receive_vi_here(guard, out)
}

/// The same, in its caller.
#[inline(always)]
pub(super) fn receive_vi_here(
    guard: &mut Guard<'_>,
    out: UserSliceMut<'_>,
) -> Result<usize, Fault> {
    let mut done = 0;
    let result = take(guard, out, &mut done);
    guard.traffic.bytes_received += done as u64;
    match result {
        // What came before the bad address has been received; the rest stays where it is.
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
            if let Take::Gathered(n) = guard.taker.next(tail, after) {
                *count += take_gathered(guard, n, out.skip(done))?;
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
        if handled::is_here(guard) {
            // What is in the ring is for the handler to take.
            break;
        }
        let Some(entry) = guard.endpoint().rx.head()? else {
            // Packets that go before gathered bytes were published before those were.
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
                    // What was gathered before it was sent is there by now, though perhaps not
                    // yet when the tail was loaded above.
                    if let Take::Gathered(n) = next(guard) {
                        *count += take_gathered(guard, n, out.skip(done))?;
                        // Its arrival has been counted already, if it carries acknowledgements.
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

/// A packet has been taken that goes before what is gathered, if anything is. The sender may have used up what may be unread, and
/// then it waits for no acknowledgement.
#[inline(always)]
fn taken_before(guard: &Guard<'_>, tail: u64) {
    if tail != guard.taker.head {
        tell_writer(guard);
    }
}

fn take_gathered(
    guard: &mut Guard<'_>,
    available: u64,
    out: UserSliceMut<'_>,
) -> Result<usize, Fault> {
    if available > Area::LEN as u64 {
        return Err(Fault::Corrupt);
    }
    let start = rx(guard).writer.load(word::START);
    let at = (guard.taker.head.wrapping_sub(start) % Area::LEN as u64) as usize;
    let n = (available as usize).min(out.len()).min(Area::LEN - at);
    if !guard.endpoint_ref().rx.area().read(at, out.first(n)) {
        // The place is within the area: it is the program's buffer that is not there.
        return Err(Fault::BadAddress);
    }
    guard.taker.head += n as u64;
    rx(guard).reader.store(word::HEAD, guard.taker.head);
    if available - n as u64 <= ROOM {
        tell_writer(guard);
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
