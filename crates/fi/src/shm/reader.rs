//! The reading end of a segment. Whatever it reads there the writer may change at any time: each word is loaded once.

use super::segment::{EMPTY, Head, IN_LINE, INLINE, POOL, SLOTS, SMALL, Segment, place};
use super::{Corrupt, MESSAGE_MAX};
use crate::memory::Buffer;
use sovia_signal::access;

/// Given back at the latest when so many messages or bytes have been read.
const MESSAGES: u32 = SLOTS / 8;
const BYTES: u64 = POOL as u64 / 8;

/// The reading end.
#[derive(Debug)]
pub(crate) struct Reader {
    segment: Segment,
    /// The number of the message to come.
    next: u32,
    /// Where its bytes may begin in the pool.
    pool: u64,
    /// What has been given back.
    returned: u32,
    released: u64,
}

/// The bytes of a message, as long as it has not been released.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    /// Where they begin; they are one piece.
    from: *const u8,
    len: usize,
    segment: core::marker::PhantomData<&'a Segment>,
}

impl Reader {
    pub(super) fn new(segment: Segment) -> Reader {
        Reader { segment, next: 0, pool: 0, returned: 0, released: 0 }
    }

    /// Whether the slot of the next message has changed.
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        let (number, _) = self.segment.slot(self.next).head();
        let before = self.next.wrapping_add(1).wrapping_sub(SLOTS);
        number != before && (number != 0 || self.next >= SLOTS)
    }

    /// The head word of the next slot, if it has been written.
    #[inline(always)]
    fn next_word(&self) -> Result<Option<u64>, Corrupt> {
        let (number, word) = self.segment.slot(self.next).head();
        let expected = self.next.wrapping_add(1);
        if number == expected {
            return Ok(Some(word));
        }
        // The message of the lap before is still there, or nothing in the first lap.
        let before = expected.wrapping_sub(SLOTS);
        match number == before || number == 0 && self.next < SLOTS {
            true => Ok(None),
            false => Err(Corrupt("a slot with another number")),
        }
    }

    /// The message that is next, if it is there. It is the same one until [`Reader::release`].
    ///
    /// # Errors
    /// [`Corrupt`] if no honest writer can have written what is there.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Result<Option<(Head, Body<'_>)>, Corrupt> {
        let Some(mut word) = self.next_word()? else { return Ok(None) };
        if (word >> 56) as u8 == EMPTY {
            // What follows did not fit behind the message in the first slot of that line.
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

    /// Where the bytes of the next message lie, which has more than one slot has room for.
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

    /// There was a message, so there may be more: fetches the line behind that of the next one.
    #[inline(always)]
    pub(crate) fn expect_more(&self) {
        if self.next.is_multiple_of(IN_LINE) {
            self.segment.slot(self.next.wrapping_add(IN_LINE)).will_be_read();
        }
    }

    /// Is done with that message.
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

    /// Tells the writer what has been read.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if self.returned != self.next {
            self.segment.credit().store(self.next, self.pool);
            (self.returned, self.released) = (self.next, self.pool);
        }
    }
}

impl<'a> Body<'a> {
    /// The bytes of a message that are in no segment.
    pub(crate) fn of(bytes: &'a [u8]) -> Body<'a> {
        Body { from: bytes.as_ptr(), len: bytes.len(), segment: core::marker::PhantomData }
    }
}

impl Body<'_> {
    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The words that it begins with; zeros where it is shorter.
    #[inline]
    pub(crate) fn words<const N: usize>(&self) -> [u64; N] {
        let mut words = [0; N];
        // SAFETY: neither the message nor the words are shorter than that.
        unsafe { access::copy_valid(words.as_mut_ptr().cast(), self.from, self.len.min(8 * N)) };
        words
    }

    /// Where its byte `at` lies, and how many follow.
    #[inline]
    fn from(&self, at: usize) -> (*const u8, usize) {
        let at = at.min(self.len);
        // SAFETY: within the message, which is one piece.
        (unsafe { self.from.add(at) }, self.len - at)
    }

    /// Copies what lies behind its byte `at` to a buffer, as much of it as there is room for from `to_at` on.
    #[inline]
    pub(crate) fn copy(&self, at: usize, to: &Buffer, to_at: usize) {
        let (from, len) = self.from(at);
        // SAFETY: so many bytes follow.
        unsafe { to.write_from(to_at, from, len) };
    }

    /// Copies its first `len` bytes to a buffer.
    #[inline]
    pub(crate) fn copy_part(&self, len: usize, to: &Buffer, to_at: usize) {
        let (from, all) = self.from(0);
        // SAFETY: so many bytes follow.
        unsafe { to.write_from(to_at, from, len.min(all)) };
    }

    /// Copies what lies behind its byte `at`.
    pub(crate) fn append_to(&self, at: usize, out: &mut Vec<u8>) {
        let (from, len) = self.from(at);
        out.reserve(len);
        // SAFETY: so many bytes follow; the vector has room for them, and they are initialized then.
        unsafe {
            access::copy_valid(out.as_mut_ptr().add(out.len()), from, len);
            out.set_len(out.len() + len);
        }
    }
}
