//! The two directions of a native VI: its ring and pool, with exact counts of posted receives.
//!
//! Unlike the endpoints of the sockets layer, whose receives are always posted, here the program
//! posts them. The receiver publishes how many it has posted ever, up to a ring ahead of what it
//! has consumed, in the direction's credit, and if it has posted more than that, the exact number
//! in a word of its own. So the sender can tell "the ring is full", where it waits, from "no
//! receive is posted", which breaks a reliable connection.

use crate::connect::link::{Attachment, closed};
use crate::endpoint::{MESSAGE_MAX, tell};
use crate::layout::Direction;
use crate::pool::{self, POOL};
use crate::ring::{Entry, INLINE, SLOTS, Slot};
use crate::segment::SideIndex;
use crate::{Damaged, waiter::Bell};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::sync::Arc;
use via::error::Cause;

/// In an entry's length: the message carries immediate data.
const IMMEDIATE: u32 = 1 << 20;
const LENGTH: u32 = IMMEDIATE - 1;
const _: () = assert!(MESSAGE_MAX <= LENGTH as usize);

/// The word of [`Direction::reader`] with the exact number of posted receives.
const EXACT_WORD: usize = 0;

/// One direction, seen from either end.
#[derive(Debug)]
struct Half {
    /// Keeps the segment mapped and the VI taken.
    attachment: Arc<Attachment>,
    direction: NonNull<Direction>,
    slots: NonNull<[Slot; SLOTS as usize]>,
    pool: NonNull<u8>,
}

// SAFETY: the pointers lead into a segment that `attachment` keeps mapped and that is made for
// several threads, of several processes even: atomics, and pool bytes copied by their owner.
unsafe impl Send for Half {}

impl Half {
    fn new(attachment: &Arc<Attachment>, from: SideIndex) -> Half {
        let segment = &attachment.link.segment;
        let vi = attachment.vi;
        Half {
            direction: NonNull::from(segment.direction(vi, from)),
            slots: NonNull::from(segment.slots(vi, from)),
            pool: NonNull::new(segment.pool(vi, from)).unwrap_or(NonNull::dangling()),
            attachment: attachment.clone(),
        }
    }

    #[inline]
    fn direction(&self) -> &Direction {
        // SAFETY: `attachment` keeps the segment mapped; the block is all atomics.
        unsafe { self.direction.as_ref() }
    }

    #[inline]
    fn slot(&self, n: u32) -> &Slot {
        // SAFETY: as for `direction`.
        unsafe { &self.slots.as_ref()[(n % SLOTS) as usize] }
    }
}

/// Whether another message may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// A receive is posted for it, and its entry is free.
    Yes,
    /// A receive is posted for it, but the ring is full.
    RingFull,
    /// No receive is posted for it.
    NoReceive,
}

/// The sending direction.
#[derive(Debug)]
pub(crate) struct TxLane {
    half: Half,
    /// The peer's direction, in which it says that it has closed.
    peer: NonNull<Direction>,
    /// Number of the next entry.
    next: u32,
    /// Receives that the peer is known to have posted.
    credit: u32,
    place: pool::Writer,
}

// SAFETY: as for `Half`, whose segment `peer` leads into.
unsafe impl Send for TxLane {}

impl TxLane {
    pub(crate) fn new(attachment: &Arc<Attachment>) -> TxLane {
        TxLane {
            half: Half::new(attachment, attachment.side),
            peer: NonNull::from(attachment.back()),
            next: 0,
            credit: 0,
            place: pool::Writer::default(),
        }
    }

    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.half.attachment
    }

    /// Why the peer has closed, if it has.
    #[inline]
    pub(crate) fn peer_closed(&self) -> Option<Cause> {
        // SAFETY: `half.attachment` keeps the segment mapped; the block is all atomics.
        closed(unsafe { self.peer.as_ref() })
    }

    /// Whether the next message may be sent.
    #[inline]
    pub(crate) fn permit(&mut self) -> Result<Permit, Damaged> {
        if self.credit == self.next { self.ask_permit() } else { Ok(Permit::Yes) }
    }

    #[inline(never)]
    fn ask_permit(&mut self) -> Result<Permit, Damaged> {
        let direction = self.half.direction();
        let posted = direction.credit.posted();
        match posted.wrapping_sub(self.next) {
            0 => {}
            1..=SLOTS => {
                self.credit = posted;
                return Ok(Permit::Yes);
            }
            _ => return Err(Damaged("posted receives out of range")),
        }
        let exact = direction.reader.0[EXACT_WORD].load(Ordering::Acquire) as u32;
        if (exact.wrapping_sub(self.next) as i32) > 0 {
            return Ok(Permit::RingFull);
        }
        // A receive may have been posted between the two looks.
        let again = direction.credit.posted();
        match again.wrapping_sub(self.next) {
            0 => Ok(Permit::NoReceive),
            1..=SLOTS => {
                self.credit = again;
                Ok(Permit::Yes)
            }
            _ => Err(Damaged("posted receives out of range")),
        }
    }

    /// Sends a message of up to [`INLINE`] bytes. The caller has a permit.
    #[inline]
    pub(crate) fn send_inline(&mut self, bytes: &[u8], immediate: Option<u32>) {
        debug_assert!(bytes.len() <= INLINE);
        self.half.slot(self.next).copy_in(bytes);
        self.publish(bytes.len() as u32, immediate, None);
    }

    /// A place for a longer message: its offset, and where to copy `len` bytes to before
    /// [`TxLane::publish`]. `None` while there is no room.
    #[inline]
    pub(crate) fn place(&mut self, len: u32) -> Result<Option<(u32, NonNull<u8>)>, Damaged> {
        let direction = self.half.direction;
        // SAFETY: as in `Half::direction`; taken apart because `place` borrows `self.place`.
        let released = || unsafe { direction.as_ref() }.credit.released();
        let at = self.place.place(len, released)?;
        // SAFETY: `place` returns ranges within the pool.
        Ok(at.map(|at| (at, unsafe { self.half.pool.add(at as usize) })))
    }

    /// Makes the next entry visible to the peer and wakes its sleepers.
    #[inline]
    pub(crate) fn publish(&mut self, len: u32, immediate: Option<u32>, pool_offset: Option<u32>) {
        let flag = if immediate.is_some() { IMMEDIATE } else { 0 };
        let entry = Entry { immediate: immediate.unwrap_or(0), len: len | flag, pool_offset };
        self.half.slot(self.next).publish(self.next, entry);
        self.next = self.next.wrapping_add(1);
        tell(&self.half.direction().bell, |_| {});
    }
}

/// A message at the head of the receiving direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) len: u32,
    pub(crate) immediate: Option<u32>,
    pool_offset: Option<u32>,
}

/// The receiving direction.
#[derive(Debug)]
pub(crate) struct RxLane {
    half: Half,
    /// Number of the next entry.
    next: u32,
    /// Receives that the peer has been told of in the credit.
    told: u32,
    place: pool::Reader,
}

impl RxLane {
    pub(crate) fn new(attachment: &Arc<Attachment>) -> RxLane {
        RxLane {
            half: Half::new(attachment, attachment.side ^ 1),
            next: 0,
            told: 0,
            place: pool::Reader::default(),
        }
    }

    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.half.attachment
    }

    /// Why the peer has closed, if it has. What it sent before is at the head by then.
    #[inline]
    pub(crate) fn peer_closed(&self) -> Option<Cause> {
        closed(self.half.direction())
    }

    /// Tells the peer how many receives are posted and not consumed.
    #[inline]
    pub(crate) fn publish(&mut self, outstanding: u32) {
        let exact = self.next.wrapping_add(outstanding);
        let direction = self.half.direction();
        if outstanding > SLOTS {
            direction.reader.0[EXACT_WORD].store(u64::from(exact), Ordering::Release);
        }
        let told = self.next.wrapping_add(outstanding.min(SLOTS));
        if told != self.told {
            self.told = told;
            direction.credit.post(told);
        }
    }

    /// The message at the head, if there is one.
    #[inline]
    pub(crate) fn head(&self) -> Result<Option<Message>, Damaged> {
        let Some(entry) = self.half.slot(self.next).read(self.next) else { return Ok(None) };
        let Entry { immediate, len: word, pool_offset } = entry;
        let len = word & LENGTH;
        let fits = match pool_offset {
            None => len as usize <= INLINE,
            Some(_) => len as usize <= MESSAGE_MAX,
        };
        if !fits || word & !(LENGTH | IMMEDIATE) != 0 {
            return Err(Damaged("message of an impossible length"));
        }
        if pool_offset.is_some_and(|at| u64::from(at) + u64::from(len) > POOL) {
            return Err(Damaged("message outside the pool"));
        }
        let immediate = (word & IMMEDIATE != 0).then_some(immediate);
        Ok(Some(Message { len, immediate, pool_offset }))
    }

    /// Copies bytes `from..from + len` of the head message to `to`.
    ///
    /// # Safety
    /// `to` must be valid for writes of `len` bytes. The range must lie in the message.
    #[inline]
    pub(crate) unsafe fn copy(&self, message: &Message, from: u32, to: NonNull<u8>, len: u32) {
        match message.pool_offset {
            None => {
                // SAFETY: by contract; registered memory is lent to no one else as a slice.
                let out = unsafe { core::slice::from_raw_parts_mut(to.as_ptr(), len as usize) };
                self.half.slot(self.next).copy_out(from as usize, out);
            }
            // SAFETY: `head` has checked that the message lies in the pool; the target is valid by
            // contract, and not in a segment. The peer may scribble on its message meanwhile:
            // nothing is decided by the bytes.
            Some(at) => unsafe {
                let source = self.half.pool.add(at as usize + from as usize);
                core::ptr::copy_nonoverlapping(source.as_ptr(), to.as_ptr(), len as usize);
            },
        }
    }

    /// Takes the head message off, with `outstanding` receives left. Its sender may wait for
    /// the room.
    #[inline]
    pub(crate) fn consume(&mut self, message: &Message, outstanding: u32) -> Result<(), Damaged> {
        let released = match message.pool_offset {
            None => None,
            Some(at) => Some(self.place.take(at, message.len)?),
        };
        self.next = self.next.wrapping_add(1);
        self.publish(outstanding);
        if let Some(position) = released {
            self.half.direction().credit.release(position);
        }
        // A sender waits for room only if the pool was full, or if more receives are posted than
        // the ring has entries; else there is nothing to tell.
        if released.is_some() || outstanding >= SLOTS {
            tell(self.room(), |_| {});
        }
        Ok(())
    }

    fn room(&self) -> &Bell {
        &self.half.direction().room
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
