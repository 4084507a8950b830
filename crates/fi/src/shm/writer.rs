//! The writing end of a segment.

use super::segment::{Head, IN_LINE, INLINE, POOL, SLOTS, SMALL, Segment, place};
use super::{Corrupt, MESSAGE_MAX};
use crate::memory::Buffer;

/// The contents of a message: words, then a part of a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load<'a> {
    /// Words at the start, at most [`WORDS_MAX`].
    pub(crate) words: &'a [u64],
    /// A buffer, and position and length of a part.
    pub(crate) buffer: Option<(&'a Buffer, usize, usize)>,
}

/// Maximum number of words before the buffer's bytes.
pub(crate) const WORDS_MAX: usize = 12;

impl Load<'_> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        8 * self.words.len() + self.buffer.map_or(0, |(_, _, len)| len)
    }
}

/// Distance in slots from the next message to the prefetched line. It is larger than the reader's distance.
const AHEAD: u32 = 4 * IN_LINE;

/// The writing end of a segment.
#[derive(Debug)]
pub(crate) struct Writer {
    segment: Segment,
    /// Number of the next message.
    next: u32,
    /// Number of messages that the reader has returned, as of the last look.
    returned: u32,
    /// First position in the pool where the next message's bytes may begin.
    pool: u64,
    /// Position up to which the reader has returned the pool, as of the last look.
    released: u64,
}

impl Writer {
    pub(super) fn new(segment: Segment) -> Writer {
        Writer { segment, next: 0, returned: 0, pool: 0, released: 0 }
    }

    /// Returns true if a message of `len` bytes fits now.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the reader has returned more than it received.
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

    /// Returns the number of slots for a message of `len` bytes, including an empty slot before it.
    #[inline(always)]
    fn slots(&self, len: usize) -> u32 {
        if len > SMALL { IN_LINE + self.next % IN_LINE } else { 1 }
    }

    #[inline(always)]
    fn fits(&self, len: usize) -> bool {
        let slot = self.next.wrapping_sub(self.returned) + self.slots(len) <= SLOTS;
        slot && (len <= INLINE || place(self.pool, len).1 - self.released <= POOL as u64)
    }

    /// Prefetches a later line for writing. Call it when more messages will follow soon.
    #[inline(always)]
    pub(crate) fn expect_more(&self) {
        let soon = self.next.wrapping_add(AHEAD);
        if self.next.is_multiple_of(IN_LINE) && soon.wrapping_sub(self.returned) <= SLOTS - IN_LINE
        {
            self.segment.slot(soon).will_be_written();
        }
    }

    /// Sends a message. Returns false if no room is free.
    ///
    /// # Errors
    /// Returns the errors of [`Writer::has_room`].
    #[inline(always)]
    pub(crate) fn send(&mut self, mut head: Head, load: Load<'_>) -> Result<bool, Corrupt> {
        let len = load.len();
        debug_assert!(len <= MESSAGE_MAX && load.words.len() <= WORDS_MAX);
        if !self.has_room(len)? {
            return Ok(false);
        }
        head.len = len as u32;
        let has_line = len > SMALL;
        // A message that needs a whole line skips the second slot of the current line.
        let at = if has_line { self.next.wrapping_add(self.next % IN_LINE) } else { self.next };
        let slot = self.segment.slot(at);
        let to = if len <= INLINE {
            slot.bytes()
        } else {
            let (start, end) = place(self.pool, len);
            self.pool = end;
            self.segment.pool(start)
        };
        // SAFETY: the slot, the line or the pool (as `place` says) has at least `len` bytes at `to`, and the reader has
        // returned them.
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
            // The second head must belong to this lap. The reader reads the second head only after the first head.
            let second = at.wrapping_add(1);
            self.segment.slot(second).leave_empty(second);
        }
        slot.publish(at, head);
        self.next = at.wrapping_add(if has_line { IN_LINE } else { 1 });
        Ok(true)
    }
}
