//! The sending half of an endpoint.

use super::MESSAGE_MAX;
use crate::Corrupt;
use crate::half::{Entries, Half};
use crate::layout::OVERFLOW_BUFFER;
use crate::pool::{self, POOL};
use crate::quiet::Quiet;
use crate::ready_list::notify_found;
use crate::ring::{Entry, INLINE, SLOTS};
use crate::segment::{Segment, SideIndex};
use crate::undelivered::Undelivered;
use core::ops::Deref;
use core::ptr::NonNull;
use sovia_signal::access::{self, BadAddress};
use sovia_sys::{UserSlice, cache, mapping};

/// Number of messages, from the next one on, that come before the message whose memory [`Sender::claim_ahead`]
/// prefetches.
const AHEAD: u32 = 3;

/// Reason why a message could not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// The segment holds an invalid value.
    Corrupt(Corrupt),
    /// Some of the message's bytes could not be read. Nothing has been published.
    BadAddress,
}

impl From<Corrupt> for Unsent {
    fn from(corrupt: Corrupt) -> Unsent {
        Unsent::Corrupt(corrupt)
    }
}

/// The sending half of an endpoint.
#[derive(Debug)]
#[repr(C)]
pub struct Sender {
    half: Half,
    undelivered: Undelivered,
    pub(super) entries: Entries,
    place: pool::Writer,
    lent: Lent,
    quiet: Quiet,
}

/// A reserved range of the pool, which the program may be writing to.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Lent {
    /// Number of reserved bytes; 0 while no range is lent.
    len: u32,
    at: u32,
    /// State of the pool before the reservation.
    before: pool::Writer,
}

impl Deref for Sender {
    type Target = Half;

    #[inline]
    fn deref(&self) -> &Half {
        &self.half
    }
}

impl Sender {
    /// Creates the half of `vi` in which `from` sends, in its initial state.
    ///
    /// # Safety
    /// The contract of [`super::Endpoint::new`].
    pub(super) unsafe fn new(segment: &Segment, vi: u32, from: SideIndex) -> Sender {
        Sender {
            // SAFETY: this function's contract keeps the segment mapped, as `Half::new` requires.
            half: unsafe { Half::new(segment, vi, from) },
            undelivered: Undelivered(NonNull::from(segment.undelivered(vi, from))),
            entries: Entries::from(0),
            place: pool::Writer::default(),
            lent: Lent::default(),
            quiet: Quiet::default(),
        }
    }

    /// Makes this end always execute its own fences. Call it if the reader belongs to another user, because this
    /// end must not rely on fences that the reader's process causes.
    pub fn faces_other_user(&self) {
        self.quiet.keep();
    }

    /// Returns the list of messages that the reader of this direction has left unread.
    pub fn undelivered(&self) -> Undelivered {
        self.undelivered
    }

    /// Returns the header of message `n`, as this end has sent it. Call it only while the reader has not consumed
    /// the message.
    ///
    /// # Errors
    /// [`Corrupt`] if another writer has overwritten the entry.
    pub fn message(&self, n: u32) -> Result<Entry, Corrupt> {
        let overwritten = Corrupt("own entry overwritten");
        let entry = self.slot(n).read(n).ok_or(overwritten)?;
        let limit = if entry.pool_offset.is_some() { MESSAGE_MAX } else { INLINE };
        if entry.len as usize > limit { Err(overwritten) } else { Ok(entry) }
    }

    /// Copies bytes of message `n` to `out`, from byte `from` of the message on. Works only for an inline message.
    pub fn copy_message(&self, n: u32, from: usize, out: &mut [u8]) {
        self.slot(n).copy_out(from, out);
    }

    /// Returns the immediate data of entry `n` of this end, if the slot still holds entry `n`.
    pub fn immediate(&self, n: u32) -> Option<u32> {
        self.slot(n).read(n).map(|entry| entry.immediate)
    }

    /// Prefetches, for writing, the cache lines of a message that will be sent after `AHEAD` other messages.
    /// Assumes that each of these messages has `len` bytes and uses the pool, as in a long stream. The reader has
    /// already consumed the old bytes in these lines, because the window limits the number of unread messages.
    #[inline]
    pub fn claim_ahead(&self, len: usize) {
        let slot = self.slot(self.entries.next.wrapping_add(AHEAD));
        cache::will_write(core::ptr::from_ref(slot).cast());
        let size = len.next_multiple_of(cache::LINE);
        let place = self.pool().as_ptr().wrapping_add(self.place.offset() + AHEAD as usize * size);
        for line in (0..size).step_by(cache::LINE) {
            cache::will_write(place.wrapping_add(line));
        }
    }

    /// Returns the number of entries sent so far.
    pub fn sent(&self) -> u32 {
        self.entries.next
    }

    /// Sends one message. Returns false if the peer has no posted receive, or the pool has no room.
    /// Does not wake the peer: see [`Sender::notify_reader`].
    ///
    /// # Errors
    /// [`Unsent`] if the peer's credit is out of range, or if `bytes`, which may belong to the program, cannot be read.
    #[inline(always)]
    pub fn send<'b>(
        &mut self,
        immediate: u32,
        bytes: impl Into<UserSlice<'b>>,
    ) -> Result<bool, Unsent> {
        let bytes = bytes.into();
        debug_assert!(bytes.len() <= MESSAGE_MAX);
        if !self.entries.is_free(self.half.direction())? {
            return Ok(false);
        }
        let slot = self.slot(self.entries.next);
        let len = bytes.len() as u32;
        let pool_offset = if bytes.len() <= INLINE {
            slot.copy_in_checked(bytes).map_err(|BadAddress| Unsent::BadAddress)?;
            None
        } else {
            let before = self.place;
            let Some(at) = self.place(len)? else { return Ok(false) };
            // SAFETY: `place` returned a range of `len` bytes in the pool that the reader has released. The source lies
            // outside the segment, so the ranges do not overlap.
            let copied = unsafe {
                access::copy(self.pool().as_ptr().add(at as usize), bytes.as_ptr(), bytes.len())
            };
            if copied.is_err() {
                self.place.take_back(before);
                return Err(Unsent::BadAddress);
            }
            Some(at)
        };
        self.slot(self.entries.next)
            .publish(self.entries.next, Entry { immediate, len, pool_offset });
        self.entries.next = self.entries.next.wrapping_add(1);
        Ok(true)
    }

    /// Reserves `len` bytes of the pool. Returns `None` if there is no room. Also returns `None` while a range is
    /// lent, because ranges must be used in order.
    #[inline]
    fn place(&mut self, len: u32) -> Result<Option<u32>, Corrupt> {
        if self.lent.len != 0 {
            return Ok(None);
        }
        self.place.place(len, || self.half.direction().credit.released())
    }

    /// Lends a range of the pool into which the program writes a message of up to `len` bytes (not 0).
    /// [`Sender::commit`] sends the message. Until [`Sender::commit`] or [`Sender::take_back`], [`Sender::send`]
    /// returns false for messages that need the pool. Returns `None` if there is no room, or a range is lent already.
    ///
    /// # Errors
    /// [`Corrupt`] if the peer has released more than this end has placed.
    pub fn lend(&mut self, len: u32) -> Result<Option<NonNull<u8>>, Corrupt> {
        debug_assert!(len > 0 && len as usize <= MESSAGE_MAX);
        let before = self.place;
        let Some(at) = self.place(len)? else { return Ok(None) };
        self.lent = Lent { len, at, before };
        Ok(NonNull::new(self.pool().as_ptr().wrapping_add(at as usize)))
    }

    /// Returns true while a range of the pool is lent.
    pub fn has_lent(&self) -> bool {
        self.lent.len != 0
    }

    /// Takes the lent range back and sends nothing.
    pub fn take_back(&mut self) {
        if self.has_lent() {
            self.place.take_back(self.lent.before);
            self.lent = Lent::default();
        }
    }

    /// Sends the first `len` bytes (not 0) of the lent range as one message. Returns false if the peer has no posted
    /// receive; the range then stays lent. Does not wake the peer: see [`Sender::notify_reader`].
    ///
    /// # Errors
    /// [`Corrupt`] if the peer's credit is out of range.
    pub fn commit(&mut self, immediate: u32, len: u32) -> Result<bool, Corrupt> {
        debug_assert!(len > 0 && len <= self.lent.len);
        if !self.entries.is_free(self.half.direction())? {
            return Ok(false);
        }
        let lent = core::mem::take(&mut self.lent);
        self.place.shorten(lent.len, len);
        let entry = Entry { immediate, len, pool_offset: Some(lent.at) };
        self.slot(self.entries.next).publish(self.entries.next, entry);
        self.entries.next = self.entries.next.wrapping_add(1);
        Ok(true)
    }

    /// Returns the number of bytes, from the pool's beginning, that messages may use.
    pub fn pool_limit(&self) -> u32 {
        self.place.limit()
    }

    /// Returns the number of bytes, from the pool's beginning, that messages have used.
    pub fn pool_used(&self) -> usize {
        self.place.used() as usize
    }

    /// Sets the number of bytes, from the pool's beginning, that messages may use; at least [`MESSAGE_MAX`].
    pub fn set_pool_limit(&mut self, limit: u32) {
        self.place.set_limit(limit.max(MESSAGE_MAX as u32));
    }

    /// Returns the pool's pages beyond its first `keep` bytes (whole pages) to the kernel. Does so only if no
    /// message is in the pool, and if messages have used more than `keep` bytes. Returns true if pages were
    /// returned.
    pub fn trim_pool(&mut self, keep: usize) -> bool {
        let used = self.place.used() as usize;
        if used <= keep
            || self.has_lent()
            || !self.place.is_empty(self.direction().credit.released())
        {
            return false;
        }
        self.place.begin_anew();
        // SAFETY: the range is within the pool, which the contract of `Endpoint::new` keeps mapped. The pool holds no
        // message.
        unsafe { mapping::discard(self.pool().as_ptr().add(keep), POOL as usize - keep) };
        true
    }

    /// Returns the pages of the overflow buffer beyond its first `keep` bytes (whole pages) to the kernel. These bytes
    /// then read as zero.
    pub fn trim_overflow_buffer(&self, keep: usize) {
        // SAFETY: the range is within the overflow buffer, which the contract of `Endpoint::new` keeps mapped. A
        // concurrent reader finds old bytes or zeros, and any bytes are valid.
        unsafe {
            mapping::discard(self.pool().as_ptr().add(POOL as usize + keep), OVERFLOW_BUFFER - keep)
        };
    }

    /// Counts the entries that were published but not counted, because a thread or process died within
    /// [`Sender::send`].
    pub fn repair(&mut self) {
        while self.slot(self.entries.next).holds(self.entries.next) {
            self.entries.next = self.entries.next.wrapping_add(1);
        }
    }

    /// Checks that each slot of the ring still has the tag that this end has stored.
    ///
    /// # Errors
    /// [`Corrupt`] if another writer has overwritten an entry, which the reader may then have missed.
    pub fn audit(&self) -> Result<(), Corrupt> {
        let untouched = |i| {
            let n = self.entries.next.wrapping_add(i);
            self.slot(n).awaits(n)
        };
        if (0..SLOTS).all(untouched) { Ok(()) } else { Err(Corrupt("own entry overwritten")) }
    }

    /// Returns true if no thread and no ready list waits for this direction, and this end has not found one for a
    /// long time. The caller may then skip [`Sender::notify_reader`]. If the result is false, the caller must call
    /// [`Sender::notify_reader`].
    #[inline(always)]
    pub fn has_no_listener(&self) -> bool {
        self.quiet.finds_none(&self.direction().wake_word)
    }

    /// Notifies the reader after a message has been published. Wakes the reader's sleeping threads, and calls
    /// `ring` with a bitmap (never 0) of the ready lists to notify.
    #[inline]
    pub fn notify_reader(&self, ring: impl FnOnce(u32)) {
        let wake_word = &self.direction().wake_word;
        notify_found(wake_word, self.quiet.look(wake_word), ring);
    }
}
