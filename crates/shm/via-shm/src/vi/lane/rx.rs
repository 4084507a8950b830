//! The receiving direction.

use super::{BATCH, FRAGMENT, IMMEDIATE, Kept, LENGTH, MORE, WRITTEN};
use crate::Corrupt;
use crate::layout::{Direction, first_entry};
use crate::link::{Attachment, closed};
use crate::pool::{self, POOL};
use crate::ready_list::tell;
use crate::ring::{Entry, INLINE, SLOTS};
use crate::words;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use sovia_signal::access;
use std::sync::Arc;
use via::error::Cause;

/// What the entry at the head of the receiving direction brings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Bytes that it carries, or that the peer has written by RDMA.
    pub(crate) len: u32,
    pub(crate) immediate: Option<u32>,
    /// The message goes on with the next entry.
    pub(crate) more: bool,
    /// The bytes lie in our memory already.
    pub(crate) written: bool,
    pool_offset: Option<u32>,
}

/// The receiving direction.
#[derive(Debug)]
pub(crate) struct RxLane {
    half: Kept,
    /// Number of the next entry, and how many the peer knows that it may send.
    next: u32,
    given: u32,
    /// Messages received.
    messages: u32,
    /// Receives that have been published to the peer.
    told: u32,
    place: pool::Reader,
}

impl RxLane {
    pub(crate) fn new(attachment: &Arc<Attachment>) -> RxLane {
        let from = attachment.side ^ 1;
        let next = first_entry(from);
        RxLane {
            half: Kept::new(attachment, from),
            next,
            given: next + SLOTS,
            messages: 0,
            told: 0,
            place: pool::Reader::default(),
        }
    }

    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.half.attachment
    }

    pub(crate) fn direction(&self) -> &Direction {
        self.half.direction()
    }

    /// Why the peer has closed, if it has. What it sent before is at the head by then.
    #[inline]
    pub(crate) fn peer_closed(&self) -> Option<Cause> {
        closed(self.direction())
    }

    /// Tells the peer how many receives are posted and not consumed.
    #[inline(always)]
    pub(crate) fn publish(&mut self, outstanding: u32) {
        let told = self.messages.wrapping_add(outstanding);
        if told != self.told {
            self.told = told;
            self.direction().credit.post_receives(told);
        }
    }

    /// Whether something is at the head, sensible or not.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.half.slot(self.next).holds(self.next)
    }

    /// What is at the head, if anything is.
    #[inline(always)]
    pub(crate) fn head(&self) -> Result<Option<Piece>, Corrupt> {
        let Some(entry) = self.half.slot(self.next).read(self.next) else { return Ok(None) };
        let Entry { immediate, len: word, pool_offset } = entry;
        let len = word & LENGTH;
        let fits = match pool_offset {
            None => len as usize <= INLINE,
            Some(_) => len as usize <= FRAGMENT,
        };
        if !fits || word & !(LENGTH | IMMEDIATE | MORE | WRITTEN) != 0 {
            return Err(Corrupt("message of an impossible length"));
        }
        if pool_offset.is_some_and(|at| u64::from(at) + u64::from(len) > POOL) {
            return Err(Corrupt("message outside the pool"));
        }
        let immediate = (word & IMMEDIATE != 0).then_some(immediate);
        let mut piece = Piece { len, immediate, more: false, written: false, pool_offset };
        if word & (MORE | WRITTEN) != 0 {
            self.look_closer(word, &mut piece)?;
        }
        Ok(Some(piece))
    }

    #[inline(never)]
    fn look_closer(&self, word: u32, piece: &mut Piece) -> Result<(), Corrupt> {
        piece.more = word & MORE != 0;
        piece.written = word & WRITTEN != 0;
        if !piece.written {
            return Ok(());
        }
        if word != WRITTEN | IMMEDIATE || piece.pool_offset.is_some() {
            return Err(Corrupt("an invalid note of an RDMA"));
        }
        let mut len = [0; 4];
        self.half.slot(self.next).copy_out(0, &mut len);
        piece.len = u32::from_le_bytes(len);
        Ok(())
    }

    /// Copies bytes `from..from + len` of the head's to `to`.
    ///
    /// # Safety
    /// `to` must be valid for writes of `len` bytes. The range must lie in the piece, which must
    /// not be one that was `written`.
    #[inline(always)]
    pub(crate) unsafe fn copy(&self, piece: &Piece, from: u32, to: NonNull<u8>, len: u32) {
        match piece.pool_offset {
            None => {
                // SAFETY: by contract; registered memory is lent to no other code as a slice.
                let out = unsafe { core::slice::from_raw_parts_mut(to.as_ptr(), len as usize) };
                self.half.slot(self.next).copy_out(from as usize, out);
            }
            // SAFETY: `head` has checked that the piece lies in the pool; the target is valid by
            // contract, and not in a segment. The peer may scribble on its message meanwhile:
            // nothing is decided by the bytes.
            Some(at) => unsafe {
                let source = self.half.pool.add(at as usize + from as usize);
                access::copy_valid(to.as_ptr(), source.as_ptr(), len as usize);
            },
        }
    }

    /// Takes the head off. Its sender may wait for the room.
    #[inline(always)]
    pub(crate) fn consume(&mut self, piece: &Piece) -> Result<(), Corrupt> {
        let released = match piece.pool_offset {
            None => None,
            Some(at) => Some(self.place.take(at, piece.len)?),
        };
        self.next = self.next.wrapping_add(1);
        if !piece.more {
            self.messages = self.messages.wrapping_add(1);
        }
        // A sender waits for entries or for room in the pool only if they are used up, and entries
        // are given back in batches; after most messages there is nothing to tell it.
        let given = self.next.wrapping_add(SLOTS);
        let batch = given.wrapping_sub(self.given) >= BATCH;
        if batch {
            self.given = given;
            self.direction().credit.post(given);
        }
        if let Some(position) = released {
            self.direction().credit.release(position);
        }
        if batch || released.is_some() {
            self.tell_room();
        }
        Ok(())
    }

    /// Tells the sender that what it has sent is in our memory (reliable reception).
    pub(crate) fn deliver(&self) {
        let word = &self.direction().reader.0[words::R_DELIVERED];
        word.store(u64::from(self.messages), Ordering::Release);
        self.tell_room();
    }

    /// Wakes a sender that waits for room.
    #[inline]
    pub(crate) fn tell_room(&self) {
        tell(&self.direction().room, |ready_lists| self.attachment().notify(ready_lists));
    }

    /// Messages that the peer has dropped for want of a receive.
    pub(crate) fn dropped(&self) -> u64 {
        self.direction().writer.load(words::W_DROPPED)
    }
}

#[cfg(test)]
impl RxLane {
    pub(super) fn half(&self) -> &Kept {
        &self.half
    }
}
