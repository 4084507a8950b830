//! The reading end of a segment. The writer may change everything in the segment at any time, so the reader loads each
//! word once.

use super::segment::{EMPTY, Head, IN_LINE, INLINE, POOL, SLOTS, SMALL, Segment, place};
use super::{Corrupt, MESSAGE_MAX};
use crate::memory::Buffer;
use sovia_signal::access;

/// The reader returns its slots and pool bytes at the latest after this number of messages or bytes.
const MESSAGES: u32 = SLOTS / 8;
const BYTES: u64 = POOL as u64 / 8;

/// The reading end of a segment.
#[derive(Debug)]
pub(crate) struct Reader {
    segment: Segment,
    /// Number of the next message.
    next: u32,
    /// First position in the pool where the next message's bytes may begin.
    pool: u64,
    /// Number of messages, and position in the pool, last returned to the writer.
    returned: u32,
    released: u64,
}

/// The bytes of a message, valid until the message is released.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    /// Address of the bytes, which are contiguous.
    from: *const u8,
    len: usize,
    segment: core::marker::PhantomData<&'a Segment>,
}

impl Reader {
    pub(super) fn new(segment: Segment) -> Reader {
        Reader { segment, next: 0, pool: 0, returned: 0, released: 0 }
    }

    /// Returns true if the slot of the next message has changed.
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        let (number, _) = self.segment.slot(self.next).head();
        let before = self.next.wrapping_add(1).wrapping_sub(SLOTS);
        number != before && (number != 0 || self.next >= SLOTS)
    }

    /// Returns the head word of the next slot; `None` if the writer has not written the slot yet.
    #[inline(always)]
    fn next_word(&self) -> Result<Option<u64>, Corrupt> {
        let (number, word) = self.segment.slot(self.next).head();
        let expected = self.next.wrapping_add(1);
        if number == expected {
            return Ok(Some(word));
        }
        // The slot still holds the message of the lap before, or nothing in the first lap.
        let before = expected.wrapping_sub(SLOTS);
        match number == before || number == 0 && self.next < SLOTS {
            true => Ok(None),
            false => Err(Corrupt("a slot with another number")),
        }
    }

    /// Returns the next message, if it has arrived. Repeated calls return the same message until [`Reader::release`].
    ///
    /// # Errors
    /// Returns [`Corrupt`] if no correct writer writes such a slot.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Result<Option<(Head, Body<'_>)>, Corrupt> {
        let Some(mut word) = self.next_word()? else { return Ok(None) };
        if (word >> 56) as u8 == EMPTY {
            // The next message did not fit after the message in the first slot of this line.
            if self.next.is_multiple_of(IN_LINE) {
                return Err(Corrupt("an empty line"));
            }
            self.next = self.next.wrapping_add(1);
            match self.next_word()? {
                Some(next) => word = next,
                None => return Ok(None),
            }
        }
        let slot = self.segment.slot(self.next);
        let head = slot.read(word);
        let len = head.len as usize;
        let from = if len <= SMALL { slot.bytes().cast_const() } else { self.long(len)? };
        Ok(Some((head, Body { from, len, segment: core::marker::PhantomData })))
    }

    /// Returns the address of the next message's bytes, for a message that does not fit into one slot.
    #[inline]
    fn long(&self, len: usize) -> Result<*const u8, Corrupt> {
        if len > MESSAGE_MAX {
            return Err(Corrupt("a message longer than the longest"));
        }
        if !self.next.is_multiple_of(IN_LINE) {
            return Err(Corrupt("a message across lines"));
        }
        Ok(match len <= INLINE {
            true => self.segment.slot(self.next).bytes(),
            false => self.segment.pool(place(self.pool, len).0),
        }
        .cast_const())
    }

    /// Prefetches the line after the next message's line. Call it after a message, when more may follow.
    #[inline(always)]
    pub(crate) fn expect_more(&self) {
        if self.next.is_multiple_of(IN_LINE) {
            self.segment.slot(self.next.wrapping_add(IN_LINE)).will_be_read();
        }
    }

    /// Finishes the message with head `head`.
    #[inline(always)]
    pub(crate) fn release(&mut self, head: Head) {
        let len = head.len as usize;
        self.next = self.next.wrapping_add(if len > SMALL { IN_LINE } else { 1 });
        if len > INLINE {
            self.pool = place(self.pool, len).1;
        }
        if self.next.wrapping_sub(self.returned) >= MESSAGES || self.pool - self.released >= BYTES {
            self.give_back();
        }
    }

    /// Publishes to the writer how much this end has read.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if self.returned != self.next {
            self.segment.credit().store(self.next, self.pool);
            (self.returned, self.released) = (self.next, self.pool);
        }
    }
}

impl<'a> Body<'a> {
    /// Wraps the bytes of a message that lies in no segment.
    pub(crate) fn of(bytes: &'a [u8]) -> Body<'a> {
        Body { from: bytes.as_ptr(), len: bytes.len(), segment: core::marker::PhantomData }
    }
}

impl Body<'_> {
    /// Returns the length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first words of the message, with zeros after its end.
    #[inline]
    pub(crate) fn words<const N: usize>(&self) -> [u64; N] {
        let mut words = [0; N];
        // SAFETY: the length is at most the message's length and at most the array's length.
        unsafe { access::copy_valid(words.as_mut_ptr().cast(), self.from, self.len.min(8 * N)) };
        words
    }

    /// Returns the address of byte `at`, and the number of bytes from there on.
    #[inline]
    fn from(&self, at: usize) -> (*const u8, usize) {
        let at = at.min(self.len);
        // SAFETY: `at` is at most the message's length, and the message is contiguous.
        (unsafe { self.from.add(at) }, self.len - at)
    }

    /// Copies the bytes from `at` on to position `to_at` of a buffer, as many as fit.
    #[inline]
    pub(crate) fn copy(&self, at: usize, to: &Buffer, to_at: usize) {
        let (from, len) = self.from(at);
        // SAFETY: `len` bytes of the message follow `from`.
        unsafe { to.write_from(to_at, from, len) };
    }

    /// Copies the first `len` bytes to position `to_at` of a buffer.
    #[inline]
    pub(crate) fn copy_part(&self, len: usize, to: &Buffer, to_at: usize) {
        let (from, all) = self.from(0);
        // SAFETY: at least `len.min(all)` bytes of the message follow `from`.
        unsafe { to.write_from(to_at, from, len.min(all)) };
    }

    /// Appends the bytes from `at` on to `out`.
    pub(crate) fn append_to(&self, at: usize, out: &mut Vec<u8>) {
        let (from, len) = self.from(at);
        out.reserve(len);
        // SAFETY: `len` bytes follow `from`, and `reserve` made room for them. The copy initializes them before
        // `set_len`.
        unsafe {
            access::copy_valid(out.as_mut_ptr().add(out.len()), from, len);
            out.set_len(out.len() + len);
        }
    }
}
