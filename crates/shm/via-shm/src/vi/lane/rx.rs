//! The receiving direction of a native VI.

use super::{BATCH, FRAGMENT, IMMEDIATE, LENGTH, MORE, MappedHalf, WRITTEN};
use crate::link::{Attachment, closed, first_entry};
use crate::words;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use sovia_ring::Corrupt;
use sovia_ring::layout::Direction;
use sovia_ring::pool::{self, POOL};
use sovia_ring::ready_list::notify;
use sovia_ring::ring::{Entry, INLINE, SLOTS};
use sovia_signal::access;
use std::sync::Arc;
use via::error::Cause;

/// The entry at the head of the receiving direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Number of bytes in the entry, or of bytes that the peer has written by RDMA.
    pub(crate) len: u32,
    pub(crate) immediate: Option<u32>,
    /// Set if the message continues in the next entry.
    pub(crate) more: bool,
    /// Set if the entry reports an RDMA write: the bytes are already in the program's memory.
    pub(crate) written: bool,
    pool_offset: Option<u32>,
}

/// The receiving direction of a native VI.
#[derive(Debug)]
pub(crate) struct RxLane {
    half: MappedHalf,
    /// Number of the next entry to take. `given` is the number of the first entry that the peer may not send yet,
    /// as published.
    next: u32,
    given: u32,
    /// Number of messages received.
    messages: u32,
    /// Number of posted receives, as published to the peer.
    published: u32,
    place: pool::Reader,
}

impl RxLane {
    pub(crate) fn new(attachment: &Arc<Attachment>) -> RxLane {
        let from = attachment.side ^ 1;
        let next = first_entry(from);
        RxLane {
            half: MappedHalf::new(attachment, from),
            next,
            given: next + SLOTS,
            messages: 0,
            published: 0,
            place: pool::Reader::default(),
        }
    }

    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.half.attachment
    }

    pub(crate) fn direction(&self) -> &Direction {
        self.half.direction()
    }

    /// Returns the peer's reason for closing the connection; `None` if the peer has not closed it. After a reason
    /// is returned, all messages that the peer sent before the close are visible.
    #[inline]
    pub(crate) fn peer_closed(&self) -> Option<Cause> {
        closed(self.direction())
    }

    /// Publishes the number of posted receives to the peer. `outstanding` is the number of receives not yet consumed.
    #[inline(always)]
    pub(crate) fn publish(&mut self, outstanding: u32) {
        let published = self.messages.wrapping_add(outstanding);
        if published != self.published {
            self.published = published;
            self.direction().credit.post_receives(published);
        }
    }

    /// Returns true if an entry has arrived, valid or not.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        self.half.slot(self.next).holds(self.next)
    }

    /// Returns the entry at the head, if one has arrived.
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

    /// Copies bytes `from..from + len` of `piece`, the entry at the head, to `to`.
    ///
    /// # Safety
    /// `to` must be valid for writes of `len` bytes. The range must lie in the piece, and the piece must not be
    /// `written`.
    #[inline(always)]
    pub(crate) unsafe fn copy(&self, piece: &Piece, from: u32, to: NonNull<u8>, len: u32) {
        match piece.pool_offset {
            None => {
                // SAFETY: `to` is valid for writes by this function's contract. No other code has a Rust reference to
                // registered memory.
                let out = unsafe { core::slice::from_raw_parts_mut(to.as_ptr(), len as usize) };
                self.half.slot(self.next).copy_out(from as usize, out);
            }
            // SAFETY: `head` has checked that the piece lies in the pool. By contract `to` is valid and not in a
            // segment, so the ranges do not overlap. The peer may overwrite its message during the copy, but no
            // decision here depends on the bytes.
            Some(at) => unsafe {
                let source = self.half.pool().add(at as usize + from as usize);
                access::copy_valid(to.as_ptr(), source.as_ptr(), len as usize);
            },
        }
    }

    /// Takes the entry at the head off the ring. Notifies a sender that may be waiting for room.
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
        // A sender waits only after it has used up all free entries or the pool. Free entries are returned to the
        // sender in batches, so most inline messages need no notification.
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
            self.notify_writer();
        }
        Ok(())
    }

    /// Reports to the sender that all messages taken so far are in this process's memory. Used at reliable
    /// reception only.
    pub(crate) fn deliver(&self) {
        let word = &self.direction().reader.0[words::R_DELIVERED];
        word.store(u64::from(self.messages), Ordering::Release);
        self.notify_writer();
    }

    /// Wakes a sender that waits for room.
    #[inline]
    pub(crate) fn notify_writer(&self) {
        notify(&self.direction().room, |ready_lists| self.attachment().notify(ready_lists));
    }

    /// Returns the number of messages that the peer has dropped because no receive was posted.
    pub(crate) fn dropped(&self) -> u64 {
        self.direction().writer.load(words::W_DROPPED)
    }
}

#[cfg(test)]
impl RxLane {
    pub(super) fn half(&self) -> &MappedHalf {
        &self.half
    }
}
