//! Handles the unread bytes of a VI that its receiver leaves, or has never entered.
//!
//! No receiver removes these bytes from the VI. The sender reads them where they lie and puts them on TCP
//! ([`super::returned`]). If TCP ends before all of them are there, the receiver continues on the VI. So a thread may
//! end or be killed at any point, and another thread continues.

use super::hold::{kind_of, scan};
use super::{Fault, failover, reflected, rx, tx, word};
use crate::conn::{Guard, HELD, HasEndpoint, Held, flag};
use core::sync::atomic::Ordering;
use sovia_proto::failover::LEN;
use sovia_proto::packet::Kind;
use sovia_proto::path::reflected::{Rest, Verdict};
use sovia_proto::path::{self, Rx, Seen};
use via_shm::Corrupt;
use via_shm::endpoint::Area;
use via_shm::ring::Entry;
use via_shm::undelivered::{Left, Undelivered};

/// Continuation of the stream after the unread bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Perhaps more bytes on the VI.
    More,
    /// The stream continues on TCP.
    ToTcp,
    /// The stream ends.
    Fin,
}

/// Unread bytes on the VI.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unread {
    pub(crate) bytes: u64,
    pub(crate) next: Next,
    /// Number of data packets that are held, off the ring.
    packets: u32,
    gathered: u64,
}

/// Finds the unread bytes on the VI, and consumes none of them.
///
/// # Errors
/// [`Corrupt`] if the peer has published impossible values.
pub(crate) fn look(guard: &mut Guard<'_>) -> Result<Unread, Corrupt> {
    let nonsense = |_: Fault| Corrupt("invalid unread packets");
    scan(guard).map_err(nonsense)?;
    let line = &rx(guard).writer;
    // Bytes that were coalesced before a packet was sent are visible, because the packet is visible.
    let gathered = line.load(word::TAIL).wrapping_sub(guard.taker.head);
    if gathered > Area::LEN as u64 {
        return Err(Corrupt("more coalesced bytes than fit"));
    }
    let (mut bytes, mut packets) = (gathered, 0u32);
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
    Ok(Unread { bytes: bytes - front, next, packets, gathered })
}

/// Returns the held packets, the next one first.
pub(super) fn unread_packets<'g>(guard: &'g Guard<'_>) -> impl Iterator<Item = &'g Held> {
    let count = guard.held_end.wrapping_sub(guard.held_first).min(HELD as u32);
    (0..count).map(|i| &guard.held[guard.held_first.wrapping_add(i) as usize % HELD])
}

/// Publishes the unread bytes in the segment, for the sender.
///
/// # Errors
/// [`Corrupt`] if coalesced bytes come after packets that have not arrived.
pub(crate) fn leave(guard: &Guard<'_>, unread: &Unread) -> Result<(), Corrupt> {
    let direction = rx(guard);
    let after = direction.writer.load(word::AFTER) as u32;
    let before = match unread.gathered {
        0 => unread.packets,
        _ => after.wrapping_sub(guard.taker.packets),
    };
    if before > unread.packets {
        return Err(Corrupt("coalesced bytes after missing packets"));
    }
    let undelivered = guard.endpoint_ref().rx.undelivered();
    for (n, held) in (0..unread.packets).zip(unread_packets(guard)) {
        let left = match held.pooled {
            true => Left::Pooled { at: held.at, len: held.len },
            false => Left::Inline(held.bytes.get(..held.len as usize).unwrap_or(&[])),
        };
        undelivered.leave(n, left);
    }
    direction.reader.store(word::FRONT, u64::from(guard.front));
    let counts = u64::from(unread.packets) | u64::from(before) << 32;
    direction.reader.store(word::UNDELIVERED, counts);
    Ok(())
}

/// Repairs the state after a thread died that may have been about to return unread bytes.
pub(super) fn repair(guard: &Guard<'_>) {
    let conn = guard.conn;
    if conn.has(flag::RETURNING) && path::revokes(conn.rx()) {
        match reflected::verdict(guard) {
            // The next step of the fallback continues here.
            Verdict::Pending => {}
            Verdict::Accepted => conn.set_rx(Rx::Back),
            Verdict::Refused | Verdict::None => {
                conn.clear(flag::RETURNING);
            }
        }
    }
}

/// The words that describe the unread bytes on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// The words of the receiver, which has left the VI.
    ByReceiver,
    /// The sender's own counts: the receiver has never entered.
    BySender,
    /// The sender's own record of bytes that may not have arrived through a dead NIC.
    OfFailover,
}

/// The unread part of the direction in which this end sends.
pub(super) struct Part {
    said: Said,
    /// Failover record, which goes before the bytes.
    record: [u8; LEN],
    /// Number of bytes of `record` that are used: all or 0.
    record_len: usize,
    /// Number of the first ring entry, if the part consists of the sender's own entries.
    first: u32,
    messages: u32,
    /// Number of messages before the coalesced bytes.
    before: u32,
    /// Number of bytes of the first message that the receiver has read.
    front: u32,
    /// Unread coalesced bytes: the position of the first one, and their number.
    gathered: (u64, u64),
}

impl Part {
    /// Returns the unread part, as `said` describes it.
    ///
    /// # Errors
    /// [`Corrupt`] if the receiver has published impossible values.
    pub(super) fn of(guard: &Guard<'_>, said: Said) -> Result<Part, Corrupt> {
        let tail = guard.gatherer.tail;
        let (record, record_len, first, front) = ([0; LEN], 0, 0, 0);
        if said == Said::BySender {
            let (messages, gathered) = (guard.endpoint_ref().tx.sent(), (0, tail));
            let before = messages;
            return Ok(Part { said, record, record_len, first, messages, before, front, gathered });
        }
        if said == Said::OfFailover {
            let (record, record_len) = (failover::record(guard), LEN);
            let kept = &guard.failover.tail;
            let (first, messages, gathered) =
                (kept.first, kept.entries, (kept.head, kept.gathered));
            let before = messages;
            return Ok(Part { said, record, record_len, first, messages, before, front, gathered });
        }
        let line = &tx(guard).reader;
        let counts = line.load(word::UNDELIVERED);
        let (messages, before) = (counts as u32, (counts >> 32) as u32);
        let front = u32::try_from(line.load(word::FRONT));
        let head = line.load(word::HEAD);
        let gathered = tail.wrapping_sub(head);
        match front {
            Ok(front)
                if messages <= Undelivered::MAX
                    && before <= messages
                    && gathered <= Area::LEN as u64 =>
            {
                let gathered = (head, gathered);
                Ok(Part { said, record, record_len, first, messages, before, front, gathered })
            }
            _ => Err(Corrupt("invalid undelivered bytes")),
        }
    }

    fn message(&self, guard: &Guard<'_>, n: u32) -> Result<Entry, Corrupt> {
        let tx = &guard.endpoint_ref().tx;
        match self.said {
            Said::ByReceiver => tx.undelivered().find(n),
            Said::BySender | Said::OfFailover => tx.message(self.first.wrapping_add(n)),
        }
    }

    /// Returns the number of unread bytes of message `n`.
    fn unread_of(&self, n: u32, entry: &Entry) -> Result<u64, Corrupt> {
        let had = if n == 0 { self.front } else { 0 };
        entry.len.checked_sub(had).map(u64::from).ok_or(Corrupt("read beyond a message's end"))
    }

    /// Returns the length of the part in bytes, including the record.
    pub(super) fn len(&self, guard: &Guard<'_>) -> Result<u64, Corrupt> {
        let mut len = self.record_len as u64 + self.gathered.1;
        for n in 0..self.messages {
            len += self.unread_of(n, &self.message(guard, n)?)?;
        }
        Ok(len)
    }

    /// Copies bytes of the part from byte `at` on into `out`. Returns their number, which is 0 only at the end of the
    /// part.
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
                if left < self.gathered.1 {
                    return self.copy_gathered(guard, left, out);
                }
                left -= self.gathered.1;
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
        match (entry.pool_offset, self.said) {
            (Some(at), _) => {
                if !tx.bulk().read(at as usize + from, &mut *out) {
                    return Err(Corrupt("a message outside the pool"));
                }
            }
            (None, Said::ByReceiver) => tx.undelivered().copy(n, from, out),
            (None, Said::BySender | Said::OfFailover) => {
                tx.copy_message(self.first.wrapping_add(n), from, out);
            }
        }
        Ok(out.len())
    }

    fn copy_gathered(
        &self,
        guard: &Guard<'_>,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize, Corrupt> {
        let position = self.gathered.0.wrapping_add(from);
        let at = (position.wrapping_sub(guard.own.start) % Area::LEN as u64) as usize;
        let left = usize::try_from(self.gathered.1 - from).unwrap_or(usize::MAX);
        let part = out.len().min(left).min(Area::LEN - at);
        match guard.endpoint_ref().tx.area().read(at, &mut out[..part]) {
            true => Ok(part),
            false => Err(Corrupt("coalesced bytes outside the overflow buffer")),
        }
    }
}

/// Tells the sender how many bytes are unread, unless the sender has refused or already has an answer. Returns what
/// becomes of these bytes.
pub(crate) fn answer(guard: &Guard<'_>, seen: Seen, unread: u64) -> Rest {
    let word = &rx(guard).path.0[word::RETURNED];
    let answer = path::answer(seen, unread);
    let exchanged = word.compare_exchange(0, answer, Ordering::AcqRel, Ordering::Acquire);
    reflected::tell_nic(guard);
    let (Ok(found) | Err(found)) = exchanged;
    reflected::rest(guard, seen, unread, found)
}
