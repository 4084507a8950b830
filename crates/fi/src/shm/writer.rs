//! The writing end of a segment.

use super::segment::{Head, IN_LINE, INLINE, POOL, SLOTS, SMALL, Segment, place};
use super::{Corrupt, MESSAGE_MAX};
use crate::memory::Buffer;

/// What a message carries: a few words, and then a part of a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load<'a> {
    /// Words that come first; at most [`WORDS_MAX`].
    pub(crate) words: &'a [u64],
    /// The buffer, and which part of it.
    pub(crate) buffer: Option<(&'a Buffer, usize, usize)>,
}

/// Words that may precede a message's buffer.
pub(crate) const WORDS_MAX: usize = 12;

impl Load<'_> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        8 * self.words.len() + self.buffer.map_or(0, |(_, _, len)| len)
    }
}

/// How far ahead of the next message its slot's line is fetched: beyond the one that the reader looks at.
const AHEAD: u32 = 4 * IN_LINE;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer {
    segment: Segment,
    /// The next message's number.
    next: u32,
    /// Messages that the reader has given back, as far as is known.
    returned: u32,
    /// Where the next message's bytes may begin in the pool.
    pool: u64,
    /// Up to where the reader has given the pool back, as far as is known.
    released: u64,
}

impl Writer {
    pub(super) fn new(segment: Segment) -> Writer {
        Writer { segment, next: 0, returned: 0, pool: 0, released: 0 }
    }

    /// Whether there is room for a message of `len` bytes now.
    ///
    /// # Errors
    /// [`Corrupt`] if the reader has given back what it had not.
    #[inline(always)]
    pub(crate) fn has_room(&mut self, len: usize) -> Result<bool, Corrupt> {
        if self.fits(len) {
            return Ok(true);
        }
        let (messages, pool) = self.segment.credit().load();
        let known = self.returned;
        if messages.wrapping_sub(known) > self.next.wrapping_sub(known)
            || pool < self.released
            || pool > self.pool
        {
            return Err(Corrupt("more given back than was taken"));
        }
        (self.returned, self.released) = (messages, pool);
        Ok(self.fits(len))
    }

    /// Slots that a message of `len` bytes takes, the one that is left empty before it among them.
    #[inline(always)]
    fn slots(&self, len: usize) -> u32 {
        if len > SMALL { IN_LINE + self.next % IN_LINE } else { 1 }
    }

    #[inline(always)]
    fn fits(&self, len: usize) -> bool {
        let slot = self.next.wrapping_sub(self.returned) + self.slots(len) <= SLOTS;
        slot && (len <= INLINE || place(self.pool, len).1 - self.released <= POOL as u64)
    }

    /// More messages will follow soon: fetches the line that some of them will be in.
    #[inline(always)]
    pub(crate) fn expect_more(&self) {
        let soon = self.next.wrapping_add(AHEAD);
        if self.next.is_multiple_of(IN_LINE) && soon.wrapping_sub(self.returned) <= SLOTS - IN_LINE
        {
            self.segment.slot(soon).will_be_written();
        }
    }

    /// Sends a message if there is room; whether there was.
    ///
    /// # Errors
    /// As for [`Writer::has_room`].
    #[inline(always)]
    pub(crate) fn send(&mut self, mut head: Head, load: Load<'_>) -> Result<bool, Corrupt> {
        let len = load.len();
        debug_assert!(len <= MESSAGE_MAX && load.words.len() <= WORDS_MAX);
        if !self.has_room(len)? {
            return Ok(false);
        }
        head.len = len as u32;
        let has_line = len > SMALL;
        // The second slot of a line is passed over by what needs a line.
        let at = if has_line { self.next.wrapping_add(self.next % IN_LINE) } else { self.next };
        let slot = self.segment.slot(at);
        let to = if len <= INLINE {
            slot.bytes()
        } else {
            let (start, end) = place(self.pool, len);
            self.pool = end;
            self.segment.pool(start)
        };
        // SAFETY: so many bytes follow in the slot, the line or, as `place` says, the pool, and the reader has given them back.
        unsafe {
            to.cast::<u64>().copy_from_nonoverlapping(load.words.as_ptr(), load.words.len());
            if let Some((buffer, at, len)) = load.buffer {
                buffer.read_to(at, to.add(8 * load.words.len()), len);
            }
        }
        if has_line {
            if at != self.next {
                self.segment.slot(self.next).leave_empty(self.next);
            }
            // Its head is to be that of this lap. The reader does not look at it before it has seen the first one.
            let second = at.wrapping_add(1);
            self.segment.slot(second).leave_empty(second);
        }
        slot.publish(at, head);
        self.next = at.wrapping_add(if has_line { IN_LINE } else { 1 });
        Ok(true)
    }
}
