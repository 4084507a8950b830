//! The receiving half.

use super::{CREDIT_BATCH, Half};
use crate::Corrupt;
use crate::pool::{self, POOL};
use crate::ready_list::tell;
use crate::ring::{self, Entry, INLINE, SLOTS, Slot};
use crate::segment::{Segment, SideIndex};
use crate::undelivered::Undelivered;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};
use sovia_signal::access::{self, BadAddress};
use sovia_sys::UserSliceMut;

/// The receiving half.
#[derive(Debug)]
#[repr(C)]
pub struct Receiver {
    half: Half,
    undelivered: Undelivered,
    /// Number of the next entry.
    pub(super) next: u32,
    /// Receives that have been published to the peer.
    pub(super) posted: u32,
    /// Pool position that has been published to the peer.
    released: u64,
    place: pool::Reader,
    /// The pooled message that [`Receiver::advance`] took last, and the place before.
    taking: u32,
    before: pool::Reader,
}

/// A message that has been expected.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'s> {
    slot: &'s Slot,
    number: u32,
}

impl Expected<'_> {
    /// Whether it is there; one load. Also when it has been taken since, until another one is in its place.
    #[inline]
    pub fn has_come(&self) -> bool {
        self.slot.holds(self.number)
    }
}

impl Deref for Receiver {
    type Target = Half;

    #[inline]
    fn deref(&self) -> &Half {
        &self.half
    }
}

impl Receiver {
    /// The half of `vi` in which `from` sends, fresh.
    ///
    /// # Safety
    /// The contract of [`super::Endpoint::new`].
    pub(super) unsafe fn new(segment: &Segment, vi: u32, from: SideIndex) -> Receiver {
        Receiver {
            // SAFETY: the caller's contract, which is the same.
            half: unsafe { Half::new(segment, vi, from) },
            undelivered: Undelivered(NonNull::from(segment.undelivered(vi, from))),
            next: 0,
            posted: SLOTS,
            released: 0,
            place: pool::Reader::default(),
            taking: u32::MAX,
            before: pool::Reader::default(),
        }
    }

    /// What this end has left unread.
    pub fn undelivered(&self) -> Undelivered {
        self.undelivered
    }

    /// Where the next message will lie; to have it fetched, no more.
    #[inline]
    pub fn next_at(&self) -> usize {
        core::ptr::from_ref(self.slot(self.next)).addr()
    }

    /// The next message, which another thread than the halves' owner may look for.
    #[inline]
    pub fn expected(&self) -> Expected<'_> {
        Expected { slot: self.slot(self.next), number: self.next }
    }

    /// Whether a message is there; one load, and the line it loads is the message's own.
    #[inline]
    pub fn has_message(&self) -> bool {
        self.slot(self.next).holds(self.next)
    }

    /// Whether no message is there, nor what a peer cannot have sent; one load, likewise.
    #[inline(always)]
    pub fn awaits_message(&self) -> bool {
        self.slot(self.next).awaits(self.next)
    }

    /// Entries taken so far.
    pub fn received(&self) -> u32 {
        self.next
    }

    /// Pool position that [`Receiver::advance`] returned last.
    pub fn taken(&self) -> u64 {
        self.place.position()
    }

    /// Bytes of the messages in the queue whose immediate data `counts`.
    pub fn queued(&self, counts: impl Fn(u32) -> bool) -> usize {
        (0..SLOTS)
            .map_while(|i| {
                let n = self.next.wrapping_add(i);
                self.slot(n).read(n)
            })
            .filter(|entry| counts(entry.immediate))
            .map(|entry| entry.len as usize)
            .sum()
    }

    /// The message at the head of the queue.
    ///
    /// # Errors
    /// [`Corrupt`] if its header makes no sense.
    #[inline(always)]
    pub fn head(&self) -> Result<Option<Entry>, Corrupt> {
        // One load: a second look at a line that is just being written would wait for it.
        let entry = match self.slot(self.next).read_or(self.next) {
            Ok(entry) => entry,
            Err(tag) if ring::is_before(self.next, tag) => return Ok(None),
            Err(_) => return Err(Corrupt("foreign entry")),
        };
        match entry.pool_offset {
            None if entry.len as usize > INLINE => Err(Corrupt("inline message too long")),
            Some(at) if at as u64 + u64::from(entry.len) > POOL => {
                Err(Corrupt("message outside the pool"))
            }
            _ => Ok(Some(entry)),
        }
    }

    /// Whether the peer finds in the segment what this end has published.
    ///
    /// # Errors
    /// [`Corrupt`] if another writer has written there, or the head of the queue makes no sense.
    pub fn audit(&self) -> Result<(), Corrupt> {
        let credit = &self.direction().credit;
        if credit.posted() != self.posted || credit.released() != self.released {
            return Err(Corrupt("own credit overwritten"));
        }
        self.head().map(drop)
    }

    /// Puts the place in the pool back if its user died while it took a message.
    pub fn put_back(&mut self) {
        if self.taking == self.next {
            self.place = self.before;
            self.taking = u32::MAX;
        }
    }

    /// Makes the half whole after its user died between two steps of a receive.
    pub fn repair(&self) {
        let credit = &self.direction().credit;
        credit.post(self.posted);
        credit.release(self.released);
    }

    /// Copies bytes of the head message out, from byte `from` on.
    ///
    /// # Errors
    /// [`BadAddress`] if `out` cannot be written: it may be the program's.
    #[inline(always)]
    pub fn copy_head<'b>(
        &self,
        entry: &Entry,
        from: usize,
        out: impl Into<UserSliceMut<'b>>,
    ) -> Result<(), BadAddress> {
        let out = out.into();
        match entry.pool_offset {
            None => self.slot(self.next).copy_out_checked(from, out),
            Some(at) => self.copy_pooled(at, entry.len, from, out),
        }
    }

    /// Copies bytes of a pooled message out; nothing for a range outside it.
    ///
    /// # Errors
    /// As for [`Receiver::copy_head`].
    #[inline]
    pub fn copy_pooled(
        &self,
        at: u32,
        len: u32,
        from: usize,
        out: UserSliceMut<'_>,
    ) -> Result<(), BadAddress> {
        let end = from.saturating_add(out.len());
        if end > len as usize || at as usize + end > POOL as usize {
            return Ok(());
        }
        // SAFETY: the range was just checked to lie in the pool. The peer may scribble on it
        // meanwhile: the bytes are its own message, and nothing is decided by them here.
        unsafe {
            access::copy(out.as_mut_ptr(), self.pool.as_ptr().add(at as usize + from), out.len())
        }
    }

    /// Where a pooled message's bytes lie, from byte `from` on; `None` for a range outside the pool.
    /// They stay until [`Receiver::release`] is called with the message's position, or a later one.
    pub fn pooled(&self, at: u32, len: u32, from: u32) -> Option<NonNull<u8>> {
        let fits = from <= len && u64::from(at) + u64::from(len) <= POOL;
        let place = self.pool.as_ptr().wrapping_add(at as usize + from as usize);
        fits.then_some(place).and_then(NonNull::new)
    }

    /// Takes the head message off the queue and posts its receive again. A pooled message's
    /// bytes stay until [`Receiver::release`] is called with the position returned.
    ///
    /// # Errors
    /// [`Corrupt`] if its place makes no sense.
    #[inline(always)]
    pub fn advance(&mut self, entry: &Entry) -> Result<Option<u64>, Corrupt> {
        let position = match entry.pool_offset {
            None => None,
            Some(at) => {
                // In this order in memory: a process that dies in between has its place put back.
                self.before = self.place;
                compiler_fence(Ordering::SeqCst);
                self.taking = self.next;
                compiler_fence(Ordering::SeqCst);
                Some(self.place.take(at, entry.len)?)
            }
        };
        compiler_fence(Ordering::SeqCst);
        self.next = self.next.wrapping_add(1);
        let posted = self.next.wrapping_add(SLOTS);
        if posted.wrapping_sub(self.posted) >= CREDIT_BATCH {
            self.posted = posted;
            self.direction().credit.post(posted);
        }
        Ok(position)
    }

    /// Gives pool bytes back up to a position that [`Receiver::advance`] returned.
    #[inline]
    pub fn release(&mut self, position: u64) {
        self.released = position;
        self.direction().credit.release(position);
    }

    /// Tells the writer that there is room again, or that something about the path changed.
    #[inline]
    pub fn room(&self, ring: impl FnOnce(u32)) {
        tell(&self.direction().room, ring);
    }
}
