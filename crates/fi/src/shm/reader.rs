//! The reading end of a segment. Whatever it reads there the writer may change at any time: each word is loaded once.

use super::segment::{Head, INLINE, POOL, SLOTS, Segment, WORDS, place};
use super::{Damaged, MESSAGE_MAX};
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
    words: [u64; WORDS],
    /// Where they begin, if they are in the pool.
    pool: Option<*const u8>,
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

    /// The message that is next, if it is there. It is the same one until [`Reader::release`].
    ///
    /// # Errors
    /// [`Damaged`] if no honest writer can have written what is there.
    #[inline]
    pub(crate) fn peek(&self) -> Result<Option<(Head, Body<'_>)>, Damaged> {
        let slot = self.segment.slot(self.next);
        let (number, head) = slot.head();
        let expected = self.next.wrapping_add(1);
        if number != expected {
            // The message of the lap before is still there, or nothing in the first lap.
            let before = expected.wrapping_sub(SLOTS);
            return match number == before || number == 0 && self.next < SLOTS {
                true => Ok(None),
                false => Err(Damaged("a slot with another number")),
            };
        }
        let (head, words) = slot.read(head);
        let len = head.len as usize;
        if len > MESSAGE_MAX {
            return Err(Damaged("a message longer than the longest"));
        }
        let pool = (len > INLINE).then(|| {
            let start = place(self.pool, len).0;
            self.segment.pool(start).cast_const()
        });
        Ok(Some((head, Body { words, pool, len, segment: core::marker::PhantomData })))
    }

    /// There was a message, so there may be more: fetches the line behind the next one.
    #[inline(always)]
    pub(crate) fn expect_more(&self) {
        self.segment.slot(self.next.wrapping_add(1)).will_be_read();
    }

    /// Is done with that message.
    #[inline]
    pub(crate) fn release(&mut self, head: Head) {
        let len = head.len as usize;
        if len > INLINE {
            self.pool = place(self.pool, len).1;
        }
        self.next = self.next.wrapping_add(1);
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
        let pool = Some(bytes.as_ptr());
        Body { words: [0; WORDS], pool, len: bytes.len(), segment: core::marker::PhantomData }
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
        match self.pool {
            None => words.iter_mut().zip(self.words).for_each(|(to, from)| *to = from),
            Some(from) => {
                let len = self.len.min(8 * N);
                // SAFETY: the message is in the pool, and no shorter; the words are no shorter either.
                unsafe { access::copy_valid(words.as_mut_ptr().cast(), from, len) };
            }
        }
        words
    }

    /// Where its byte `at` lies, and how many follow.
    #[inline]
    fn from(&self, at: usize) -> (*const u8, usize) {
        let at = at.min(self.len);
        let start = self.pool.unwrap_or(self.words.as_ptr().cast());
        // SAFETY: within the message, which is one piece.
        (unsafe { start.add(at) }, self.len - at)
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
