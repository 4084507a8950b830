//! Handles the unread bytes on a VI after the receiver has left the VI, or if the receiver never entered it.
//!
//! The unread bytes stay on the VI. The sender copies them from the segment to TCP ([`super::returned`]). If TCP
//! ends before all unread bytes are on TCP, the receiver reads the rest on the VI. So no byte is lost if a thread
//! is killed at any point.

use super::hold::{kind_of, scan};
use super::{Fault, failover, reflected, rx, tx, word};
use crate::conn::{Guard, HELD, HasEndpoint, Held, flag};
use core::sync::atomic::Ordering;
use sovia_proto::failover::LEN;
use sovia_proto::packet::Kind;
use sovia_proto::path::reflected::{Rest, Verdict};
use sovia_proto::path::{self, Rx, Seen};
use sovia_ring::Corrupt;
use sovia_ring::endpoint::OverflowBuffer;
use sovia_ring::ring::Entry;
use sovia_ring::undelivered::{LeftMessage, Undelivered};

/// Place where the stream continues after the unread bytes on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// On the VI, if the sender sends more.
    More,
    /// On TCP.
    ToTcp,
    /// Nowhere: the stream ends after the unread bytes.
    Fin,
}

/// Result of [`look`]: the unread bytes on the VI in the direction in which this end receives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unread {
    pub(crate) bytes: u64,
    pub(crate) next: Next,
    /// Number of unread data packets. All of them have been moved from the ring to the held packets.
    packets: u32,
    coalesced: u64,
}

/// Finds the unread bytes on the VI, without consuming them.
///
/// # Errors
/// [`Corrupt`] if the peer has published impossible values.
pub(crate) fn look(guard: &mut Guard<'_>) -> Result<Unread, Corrupt> {
    let nonsense = |_: Fault| Corrupt("invalid unread packets");
    scan(guard).map_err(nonsense)?;
    let line = &rx(guard).writer;
    // TAIL is loaded after `scan`, so coalesced bytes that the peer published before a found packet are visible.
    let coalesced = line.load(word::TAIL).wrapping_sub(guard.taker.head);
    if coalesced > OverflowBuffer::LEN as u64 {
        return Err(Corrupt("more coalesced bytes than fit"));
    }
    let (mut bytes, mut packets) = (coalesced, 0u32);
    let mut next = Next::More;
    for held in unread_packets(guard) {
        match kind_of(held.kind) {
            Some(Kind::Data) => {
                packets += 1;
                bytes += u64::from(held.len);
            }
            Some(Kind::ToTcp) => next = Next::ToTcp,
            Some(Kind::Fin) => next = Next::Fin,
            _ => return Err(Corrupt("a held packet of another kind")),
        }
        if next != Next::More {
            break;
        }
    }
    let front = u64::from(guard.front);
    if packets == 0 && front != 0 || front > bytes {
        return Err(Corrupt("read beyond a packet's end"));
    }
    Ok(Unread { bytes: bytes - front, next, packets, coalesced })
}

/// Returns the held packets in the order in which the program reads them.
pub(super) fn unread_packets<'g>(guard: &'g Guard<'_>) -> impl Iterator<Item = &'g Held> {
    let count = guard.held_end.wrapping_sub(guard.held_first).min(HELD as u32);
    (0..count).map(|i| &guard.held[guard.held_first.wrapping_add(i) as usize % HELD])
}

/// Publishes in the segment which packets are unread, so that the sender can copy their bytes to TCP.
///
/// # Errors
/// [`Corrupt`] if coalesced bytes come after packets that have not arrived.
pub(crate) fn leave(guard: &Guard<'_>, unread: &Unread) -> Result<(), Corrupt> {
    let direction = rx(guard);
    let after = direction.writer.load(word::AFTER) as u32;
    let before = match unread.coalesced {
        0 => unread.packets,
        _ => after.wrapping_sub(guard.taker.packets),
    };
    if before > unread.packets {
        return Err(Corrupt("coalesced bytes after missing packets"));
    }
    let undelivered = guard.endpoint_ref().rx.undelivered();
    for (n, held) in (0..unread.packets).zip(unread_packets(guard)) {
        let left = match held.pooled {
            true => LeftMessage::Pooled { at: held.at, len: held.len },
            false => LeftMessage::Inline(held.bytes.get(..held.len as usize).unwrap_or(&[])),
        };
        undelivered.leave(n, left);
    }
    direction.reader.store(word::FRONT, u64::from(guard.front));
    let counts = u64::from(unread.packets) | u64::from(before) << 32;
    direction.reader.store(word::UNDELIVERED, counts);
    Ok(())
}

/// Repairs the path after a thread died that may have been about to return unread bytes to the sender.
pub(super) fn repair(guard: &Guard<'_>) {
    let conn = guard.conn;
    if conn.has(flag::RETURNING) && path::revokes(conn.rx()) {
        match reflected::verdict(guard) {
            // The sender has not answered yet. The next step of the fallback waits for the answer.
            Verdict::Pending => {}
            Verdict::Accepted => conn.set_rx(Rx::Back),
            Verdict::Refused | Verdict::None => {
                conn.clear(flag::RETURNING);
            }
        }
    }
}

/// Source of the list of unread bytes on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListSource {
    /// Words in the segment that the receiver wrote when it left the VI.
    ByReceiver,
    /// The sender's own counts. The receiver has never entered the VI, so all bytes are unread.
    BySender,
    /// The sender's failover state: bytes that a dead NIC may not have delivered.
    OfFailover,
}

/// The bytes that this end must put on TCP: its unread bytes on the VI, after the failover record if there is one.
pub(super) struct Part {
    list_source: ListSource,
    /// Failover record, which is sent before the unread bytes.
    record: [u8; LEN],
    /// Length of `record` in bytes, or 0 if no record is sent.
    record_len: usize,
    /// Number of the first unread ring entry. Not used with [`ListSource::ByReceiver`].
    first: u32,
    messages: u32,
    /// Number of unread messages that come before the coalesced bytes.
    before: u32,
    /// Number of bytes of the first unread message that the receiver has already read.
    front: u32,
    /// Position of the first unread coalesced byte, and the number of unread coalesced bytes.
    coalesced: (u64, u64),
}

impl Part {
    /// Returns the bytes that this end must put on TCP. `list_source` selects the source of the list of unread bytes.
    ///
    /// # Errors
    /// [`Corrupt`] if the receiver has published impossible values.
    pub(super) fn of(guard: &Guard<'_>, list_source: ListSource) -> Result<Part, Corrupt> {
        let tail = guard.coalescer.tail;
        let nothing = Part {
            list_source,
            record: [0; LEN],
            record_len: 0,
            first: 0,
            messages: 0,
            before: 0,
            front: 0,
            coalesced: (0, 0),
        };
        if list_source == ListSource::BySender {
            let messages = guard.endpoint_ref().tx.sent();
            return Ok(Part { messages, before: messages, coalesced: (0, tail), ..nothing });
        }
        if list_source == ListSource::OfFailover {
            let kept = &guard.failover.tail;
            return Ok(Part {
                record: failover::record(guard),
                record_len: LEN,
                first: kept.first,
                messages: kept.entries,
                before: kept.entries,
                coalesced: (kept.head, kept.coalesced),
                ..nothing
            });
        }
        let line = &tx(guard).reader;
        let counts = line.load(word::UNDELIVERED);
        let (messages, before) = (counts as u32, (counts >> 32) as u32);
        let front = u32::try_from(line.load(word::FRONT));
        let head = line.load(word::HEAD);
        let coalesced = tail.wrapping_sub(head);
        match front {
            Ok(front)
                if messages <= Undelivered::MAX
                    && before <= messages
                    && coalesced <= OverflowBuffer::LEN as u64 =>
            {
                Ok(Part { messages, before, front, coalesced: (head, coalesced), ..nothing })
            }
            _ => Err(Corrupt("invalid undelivered bytes")),
        }
    }

    fn message(&self, guard: &Guard<'_>, n: u32) -> Result<Entry, Corrupt> {
        let tx = &guard.endpoint_ref().tx;
        match self.list_source {
            ListSource::ByReceiver => tx.undelivered().find(n),
            ListSource::BySender | ListSource::OfFailover => tx.message(self.first.wrapping_add(n)),
        }
    }

    /// Returns the number of unread bytes of message `n`, whose ring entry is `entry`.
    fn unread_of(&self, n: u32, entry: &Entry) -> Result<u64, Corrupt> {
        let had = if n == 0 { self.front } else { 0 };
        entry.len.checked_sub(had).map(u64::from).ok_or(Corrupt("read beyond a message's end"))
    }

    /// Returns the total length in bytes, including the failover record.
    pub(super) fn len(&self, guard: &Guard<'_>) -> Result<u64, Corrupt> {
        let mut len = self.record_len as u64 + self.coalesced.1;
        for n in 0..self.messages {
            len += self.unread_of(n, &self.message(guard, n)?)?;
        }
        Ok(len)
    }

    /// Copies into `out` some of the bytes that start at offset `at` of this part. Returns the number of copied
    /// bytes, which is 0 only if `at` is the part's length.
    ///
    /// # Errors
    /// [`Corrupt`] if the published values are impossible.
    pub(super) fn copy(
        &self,
        guard: &Guard<'_>,
        at: u64,
        out: &mut [u8],
    ) -> Result<usize, Corrupt> {
        let rest = self.record[..self.record_len].get(at as usize..).unwrap_or(&[]);
        if !rest.is_empty() {
            let n = rest.len().min(out.len());
            out[..n].copy_from_slice(&rest[..n]);
            return Ok(n);
        }
        let mut left = at - self.record_len as u64;
        for n in 0..=self.messages {
            if n == self.before {
                if left < self.coalesced.1 {
                    return self.copy_coalesced(guard, left, out);
                }
                left -= self.coalesced.1;
            }
            if n == self.messages {
                break;
            }
            let entry = self.message(guard, n)?;
            let len = self.unread_of(n, &entry)?;
            if left < len {
                let from = u64::from(entry.len) - len + left;
                let part = out.len().min((len - left) as usize);
                return self.copy_message(guard, n, &entry, from as usize, &mut out[..part]);
            }
            left -= len;
        }
        Ok(0)
    }

    fn copy_message(
        &self,
        guard: &Guard<'_>,
        n: u32,
        entry: &Entry,
        from: usize,
        out: &mut [u8],
    ) -> Result<usize, Corrupt> {
        let tx = &guard.endpoint_ref().tx;
        match (entry.pool_offset, self.list_source) {
            (Some(at), _) => {
                if !tx.bulk().read(at as usize + from, &mut *out) {
                    return Err(Corrupt("a message outside the pool"));
                }
            }
            (None, ListSource::ByReceiver) => tx.undelivered().copy(n, from, out),
            (None, ListSource::BySender | ListSource::OfFailover) => {
                tx.copy_message(self.first.wrapping_add(n), from, out);
            }
        }
        Ok(out.len())
    }

    fn copy_coalesced(
        &self,
        guard: &Guard<'_>,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize, Corrupt> {
        let position = self.coalesced.0.wrapping_add(from);
        let at = (position.wrapping_sub(guard.own.start) % OverflowBuffer::LEN as u64) as usize;
        let left = usize::try_from(self.coalesced.1 - from).unwrap_or(usize::MAX);
        let part = out.len().min(left).min(OverflowBuffer::LEN - at);
        match guard.endpoint_ref().tx.overflow_buffer().read(at, &mut out[..part]) {
            true => Ok(part),
            false => Err(Corrupt("coalesced bytes outside the overflow buffer")),
        }
    }
}

/// Publishes for the sender that `unread` bytes are unread, unless the sender has refused or this end has already
/// answered. Returns whether the sender will put the unread bytes on TCP.
pub(crate) fn answer(guard: &Guard<'_>, seen: Seen, unread: u64) -> Rest {
    let word = &rx(guard).path.0[word::RETURNED];
    let answer = path::answer(seen, unread);
    let exchanged = word.compare_exchange(0, answer, Ordering::AcqRel, Ordering::Acquire);
    reflected::notify_nic(guard);
    let (Ok(found) | Err(found)) = exchanged;
    reflected::rest(guard, seen, unread, found)
}
