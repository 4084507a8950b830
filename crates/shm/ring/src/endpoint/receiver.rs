//! The receiving half of an endpoint.

use super::CREDIT_BATCH;
use crate::Corrupt;
use crate::half::Half;
use crate::pool::{self, POOL};
use crate::ready_list::notify;
use crate::ring::{self, Entry, INLINE, SLOTS, Slot};
use crate::segment::{Segment, SideIndex};
use crate::undelivered::Undelivered;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};
use sovia_signal::access::{self, BadAddress};
use sovia_sys::UserSliceMut;

/// The receiving half of an endpoint.
#[derive(Debug)]
#[repr(C)]
pub struct Receiver {
    half: Half,
    undelivered: Undelivered,
    /// Number of the next entry to take.
    pub(super) next: u32,
    /// Number of the first entry that the peer may not send yet, as this end has published it.
    pub(super) posted: u32,
    /// Pool position up to which this end has released bytes, as published to the peer.
    released: u64,
    place: pool::Reader,
    /// Number of the entry whose pooled message [`Receiver::advance`] took last. `before` is the state of `place`
    /// before that message was taken.
    taking: u32,
    before: pool::Reader,
}

/// A handle on the message that the receiver expects next. Other threads use it to see if the message has arrived.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'s> {
    slot: &'s Slot,
    number: u32,
}

impl Expected<'_> {
    /// Returns true once the message is in the ring. Costs one load. The result stays true after the message has
    /// been taken, until another message occupies the slot.
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
    /// Creates the half of `vi` in which `from` sends, in its initial state.
    ///
    /// # Safety
    /// The contract of [`super::Endpoint::new`].
    pub(super) unsafe fn new(segment: &Segment, vi: u32, from: SideIndex) -> Receiver {
        Receiver {
            // SAFETY: this function's contract keeps the segment mapped, as `Half::new` requires.
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

    /// Returns the list in which this end puts messages that it leaves unread.
    pub fn undelivered(&self) -> Undelivered {
        self.undelivered
    }

    /// Returns the address of the next message's entry, for a prefetch only.
    #[inline]
    pub fn next_at(&self) -> usize {
        core::ptr::from_ref(self.slot(self.next)).addr()
    }

    /// Returns a handle on the next message. Threads that do not own this half may use the handle.
    #[inline]
    pub fn expected(&self) -> Expected<'_> {
        Expected { slot: self.slot(self.next), number: self.next }
    }

    /// Returns true if a message is in the ring. Costs one load, from the cache line in which the message begins.
    #[inline]
    pub fn has_message(&self) -> bool {
        self.slot(self.next).holds(self.next)
    }

    /// Returns true if no message is in the ring, and the next entry's slot has a valid tag. Returns false if the
    /// tag is corrupt. Costs one load.
    #[inline(always)]
    pub fn awaits_message(&self) -> bool {
        self.slot(self.next).awaits(self.next)
    }

    /// Returns the number of entries taken so far.
    pub fn received(&self) -> u32 {
        self.next
    }

    /// Returns the pool position that [`Receiver::advance`] returned last.
    pub fn taken(&self) -> u64 {
        self.place.position()
    }

    /// Returns the total length of the queued messages for whose immediate data `counts` returns true.
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

    /// Returns the header of the message at the head of the queue.
    ///
    /// # Errors
    /// [`Corrupt`] if the header is invalid.
    #[inline(always)]
    pub fn head(&self) -> Result<Option<Entry>, Corrupt> {
        // Load the tag only once. If the writer is changing the cache line, a second load would have to wait for
        // the line again.
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

    /// Checks that the segment still holds the credit that this end has published.
    ///
    /// # Errors
    /// [`Corrupt`] if another writer has changed the credit, or the head of the queue is invalid.
    pub fn audit(&self) -> Result<(), Corrupt> {
        let credit = &self.direction().credit;
        if credit.posted() != self.posted || credit.released() != self.released {
            return Err(Corrupt("own credit overwritten"));
        }
        self.head().map(drop)
    }

    /// Restores the pool's state, if a thread or process died within [`Receiver::advance`].
    pub fn put_back(&mut self) {
        if self.taking == self.next {
            self.place = self.before;
            self.taking = u32::MAX;
        }
    }

    /// Publishes the credit again, after a thread or process died between two steps of a receive.
    pub fn repair(&self) {
        let credit = &self.direction().credit;
        credit.post(self.posted);
        credit.release(self.released);
    }

    /// Copies bytes of the head message to `out`, from byte `from` of the message on.
    ///
    /// # Errors
    /// [`BadAddress`] if `out`, which may belong to the program, cannot be written.
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

    /// Copies bytes of a pooled message to `out`. Copies nothing if the range is outside the message or the pool.
    ///
    /// # Errors
    /// [`BadAddress`] if `out`, which may belong to the program, cannot be written.
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
        // SAFETY: the check above proves that the source range is in the pool, which the contract of
        // `Endpoint::new` keeps mapped. The peer may overwrite the bytes during the copy, but no decision here
        // depends on the bytes.
        unsafe {
            access::copy(out.as_mut_ptr(), self.pool().as_ptr().add(at as usize + from), out.len())
        }
    }

    /// Returns the address of byte `from` of a pooled message; `None` if the range is outside the pool. The bytes stay
    /// valid until [`Receiver::release`] is called with the message's position or a later position.
    pub fn pooled(&self, at: u32, len: u32, from: u32) -> Option<NonNull<u8>> {
        let fits = from <= len && u64::from(at) + u64::from(len) <= POOL;
        let place = self.pool().as_ptr().wrapping_add(at as usize + from as usize);
        fits.then_some(place).and_then(NonNull::new)
    }

    /// Takes the head message off the queue and posts its receive again. Returns the pool position for
    /// [`Receiver::release`] if the message is pooled. The bytes of a pooled message stay valid until that call.
    ///
    /// # Errors
    /// [`Corrupt`] if the message's pool offset is invalid.
    #[inline(always)]
    pub fn advance(&mut self, entry: &Entry) -> Result<Option<u64>, Corrupt> {
        let position = match entry.pool_offset {
            None => None,
            Some(at) => {
                // Store `before`, then `taking`, and change `place` last. If the process dies between these steps,
                // `put_back` restores `place`.
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

    /// Releases pool bytes up to a position that [`Receiver::advance`] returned.
    #[inline]
    pub fn release(&mut self, position: u64) {
        self.released = position;
        self.direction().credit.release(position);
    }

    /// Notifies the writer that there is room again, or that the path has changed. Calls `ring` with a bitmap of the
    /// ready lists to notify.
    #[inline]
    pub fn room(&self, ring: impl FnOnce(u32)) {
        notify(&self.direction().room, ring);
    }
}
