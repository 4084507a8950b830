//! The sending half.

use super::MESSAGE_MAX;
use crate::Corrupt;
use crate::half::{Entries, Half};
use crate::layout::AREA;
use crate::pool::{self, POOL};
use crate::quiet::Quiet;
use crate::ready_list::tell_found;
use crate::ring::{Entry, INLINE, SLOTS};
use crate::segment::{Segment, SideIndex};
use crate::undelivered::Undelivered;
use core::ops::Deref;
use core::ptr::NonNull;
use sovia_signal::access::{self, BadAddress};
use sovia_sys::{UserSlice, cache, mapping};

/// Messages between one that is sent and the one whose place [`Sender::claim_ahead`] fetches.
const AHEAD: u32 = 3;

/// Why a message could not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// The segment holds nonsense.
    Corrupt(Corrupt),
    /// The bytes are not all there. Nothing has been published.
    BadAddress,
}

impl From<Corrupt> for Unsent {
    fn from(corrupt: Corrupt) -> Unsent {
        Unsent::Corrupt(corrupt)
    }
}

/// The sending half.
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

/// A place in the pool that a message is being written to.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Lent {
    /// Its length; 0 for none.
    len: u32,
    at: u32,
    /// The pool before.
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
    /// The half of `vi` in which `from` sends, fresh.
    ///
    /// # Safety
    /// The contract of [`super::Endpoint::new`].
    pub(super) unsafe fn new(segment: &Segment, vi: u32, from: SideIndex) -> Sender {
        Sender {
            // SAFETY: the caller's contract, which is the same.
            half: unsafe { Half::new(segment, vi, from) },
            undelivered: Undelivered(NonNull::from(segment.undelivered(vi, from))),
            entries: Entries::from(0),
            place: pool::Writer::default(),
            lent: Lent::default(),
            quiet: Quiet::default(),
        }
    }

    /// The reader's process is a stranger: this end fences itself, and relies on no fence of the reader's.
    pub fn faces_other_user(&self) {
        self.quiet.keep();
    }

    /// What the reader of this direction has left unread.
    pub fn undelivered(&self) -> Undelivered {
        self.undelivered
    }

    /// The message of that number, as this end has sent it. Only while the reader has consumed none.
    ///
    /// # Errors
    /// [`Corrupt`] if another writer has been at its entry.
    pub fn message(&self, n: u32) -> Result<Entry, Corrupt> {
        let overwritten = Corrupt("own entry overwritten");
        let entry = self.slot(n).read(n).ok_or(overwritten)?;
        let limit = if entry.pool_offset.is_some() { MESSAGE_MAX } else { INLINE };
        if entry.len as usize > limit { Err(overwritten) } else { Ok(entry) }
    }

    /// Copies bytes of that message out, from byte `from` on, if they are in its entry.
    pub fn copy_message(&self, n: u32, from: usize, out: &mut [u8]) {
        self.slot(n).copy_out(from, out);
    }

    /// The immediate data of a recent entry of ours, if its slot still holds it.
    pub fn immediate(&self, n: u32) -> Option<u32> {
        self.slot(n).read(n).map(|entry| entry.immediate)
    }

    /// Has the lines fetched that a message will be written to after `AHEAD` others, if all of them
    /// have `len` bytes and need the pool. For a stream of such messages: what lies there has been
    /// read long ago, as the reader lets only so many be on their way.
    #[inline]
    pub fn claim_ahead(&self, len: usize) {
        let slot = self.slot(self.entries.next.wrapping_add(AHEAD));
        cache::will_write(core::ptr::from_ref(slot).cast());
        let size = len.next_multiple_of(cache::LINE);
        let place = self.pool.as_ptr().wrapping_add(self.place.offset() + AHEAD as usize * size);
        for line in (0..size).step_by(cache::LINE) {
            cache::will_write(place.wrapping_add(line));
        }
    }

    /// Entries sent so far.
    pub fn sent(&self) -> u32 {
        self.entries.next
    }

    /// Sends one message; false if the peer has no receive posted for it, or no pool left.
    /// The peer is not woken: see [`Sender::news`].
    ///
    /// # Errors
    /// [`Unsent`] if the peer's credit is one that it cannot have given, or `bytes` cannot be read: it
    /// may be the program's.
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
            // SAFETY: `place` returned a range of `len` bytes within the pool, which the reader
            // has released; the source lies outside the segment.
            let copied = unsafe {
                access::copy(self.pool.as_ptr().add(at as usize), bytes.as_ptr(), bytes.len())
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

    /// A place in the pool; none while one is lent: places are used in their order.
    #[inline]
    fn place(&mut self, len: u32) -> Result<Option<u32>, Corrupt> {
        if self.lent.len != 0 {
            return Ok(None);
        }
        let direction = self.direction;
        // SAFETY: as in `direction()`; taken apart because `place` borrows `self.place`.
        let released = || unsafe { direction.as_ref() }.credit.released();
        self.place.place(len, released)
    }

    /// Lends a place in the pool to write a message of up to `len` bytes (not 0) into;
    /// [`Sender::commit`] sends it. Until that, or [`Sender::take_back`], no other message that
    /// needs the pool can be sent: [`Sender::send`] returns false. `None` if there is no room, or a
    /// place is lent already.
    ///
    /// # Errors
    /// [`Corrupt`] if the peer's release is one that it cannot have given.
    pub fn lend(&mut self, len: u32) -> Result<Option<NonNull<u8>>, Corrupt> {
        debug_assert!(len > 0 && len as usize <= MESSAGE_MAX);
        let before = self.place;
        let Some(at) = self.place(len)? else { return Ok(None) };
        self.lent = Lent { len, at, before };
        Ok(NonNull::new(self.pool.as_ptr().wrapping_add(at as usize)))
    }

    /// Whether a place is lent.
    pub fn has_lent(&self) -> bool {
        self.lent.len != 0
    }

    /// Takes the lent place back; nothing is sent.
    pub fn take_back(&mut self) {
        if self.has_lent() {
            self.place.take_back(self.lent.before);
            self.lent = Lent::default();
        }
    }

    /// Sends the first `len` bytes (not 0) of the lent place as one message; false if the peer has no
    /// receive posted for it: then the place stays lent. The peer is not woken: see [`Sender::news`].
    ///
    /// # Errors
    /// [`Corrupt`] if the peer's credit is one that it cannot have given.
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

    /// Bytes of the pool from its beginning that messages may use.
    pub fn pool_limit(&self) -> u32 {
        self.place.limit()
    }

    /// Bytes of the pool from its beginning that messages have used.
    pub fn pool_used(&self) -> usize {
        self.place.used() as usize
    }

    /// From now on so many; [`MESSAGE_MAX`] at least.
    pub fn set_pool_limit(&mut self, limit: u32) {
        self.place.set_limit(limit.max(MESSAGE_MAX as u32));
    }

    /// Gives the pool's memory beyond its first `keep` bytes (whole pages) back to the kernel, if no message
    /// is in the pool and as much has been used. Whether it has.
    pub fn trim_pool(&mut self, keep: usize) -> bool {
        let used = self.place.used() as usize;
        if used <= keep
            || self.has_lent()
            || !self.place.is_empty(self.direction().credit.released())
        {
            return false;
        }
        self.place.begin_anew();
        // SAFETY: within the pool, which is mapped by the contract of `Endpoint::new`; no message is there.
        unsafe { mapping::discard(self.pool.as_ptr().add(keep), POOL as usize - keep) };
        true
    }

    /// Gives the memory of the upper layer's area beyond its first `keep` bytes (whole pages) back to the
    /// kernel. What was there reads as zero.
    pub fn trim_area(&self, keep: usize) {
        // SAFETY: within the area, which is mapped by the contract of `Endpoint::new`; a reader there
        // finds bytes.
        unsafe { mapping::discard(self.pool.as_ptr().add(POOL as usize + keep), AREA - keep) };
    }

    /// Makes the half whole after its user died between two steps of [`Sender::send`].
    pub fn repair(&mut self) {
        while self.slot(self.entries.next).holds(self.entries.next) {
            self.entries.next = self.entries.next.wrapping_add(1);
        }
    }

    /// Whether the entries that lie in the ring are still those that this end has put there.
    ///
    /// # Errors
    /// [`Corrupt`] if another writer has written there: an entry may be lost to the reader.
    pub fn audit(&self) -> Result<(), Corrupt> {
        let untouched = |i| {
            let n = self.entries.next.wrapping_add(i);
            self.slot(n).awaits(n)
        };
        if (0..SLOTS).all(untouched) { Ok(()) } else { Err(Corrupt("own entry overwritten")) }
    }

    /// Whether no reader waits for news of what has been sent, as it has long been: there is none to be told. Otherwise
    /// [`Sender::news`] finds out.
    #[inline(always)]
    pub fn has_no_listener(&self) -> bool {
        self.quiet.finds_none(&self.direction().bell)
    }

    /// Tells the reader that there is news: wakes sleepers, marks ready lists; `ring` is called with
    /// the ready lists to notify (a bitmap, never 0).
    #[inline]
    pub fn news(&self, ring: impl FnOnce(u32)) {
        let bell = &self.direction().bell;
        tell_found(bell, self.quiet.look(bell), ring);
    }
}
