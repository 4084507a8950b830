//! The sending direction.

use super::{FRAGMENT, IMMEDIATE, Kept, MORE, WRITTEN};
use crate::half::Entries;
use crate::layout::{Direction, first_entry};
use crate::link::{Attachment, closed};
use crate::quiet::Quiet;
use crate::ready_list::tell_found;
use crate::ring::{Entry, INLINE};
use crate::words;
use crate::{Corrupt, pool};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::sync::Arc;
use via::error::Cause;

/// Whether another message may be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// A receive is posted for it, and an entry is free.
    Yes,
    /// A receive is posted for it, but the ring is full.
    RingFull,
    /// No receive is posted for it.
    NoReceive,
}

/// The sending direction.
#[derive(Debug)]
pub(crate) struct TxLane {
    half: Kept,
    /// The peer's direction, in which it publishes that it has closed.
    peer: NonNull<Direction>,
    entries: Entries,
    /// Number of the next message, and how many receives the peer is known to have posted.
    message: u32,
    receives: u32,
    /// Receives that a peer can have posted ahead.
    ahead_max: u32,
    place: pool::Writer,
    quiet: Quiet,
}

// SAFETY: as for `Kept`, whose segment `peer` leads into.
unsafe impl Send for TxLane {}

impl TxLane {
    pub(crate) fn new(attachment: &Arc<Attachment>, ahead_max: u32) -> TxLane {
        TxLane {
            half: Kept::new(attachment, attachment.side),
            peer: NonNull::from(attachment.back()),
            entries: Entries::from(first_entry(attachment.side)),
            message: 0,
            receives: 0,
            ahead_max,
            place: pool::Writer::default(),
            quiet: Quiet::default(),
        }
    }

    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.half.attachment
    }

    pub(crate) fn direction(&self) -> &Direction {
        self.half.direction()
    }

    /// Why the peer has closed, if it has.
    #[inline]
    pub(crate) fn peer_closed(&self) -> Option<Cause> {
        // SAFETY: `half.attachment` keeps the segment mapped; the block is all atomics.
        closed(unsafe { self.peer.as_ref() })
    }

    /// Whether the next message may be begun.
    #[inline(always)]
    pub(crate) fn permit(&mut self) -> Result<Permit, Corrupt> {
        if self.message == self.receives && !self.ask_receives()? {
            return Ok(Permit::NoReceive);
        }
        Ok(if self.entry_free()? { Permit::Yes } else { Permit::RingFull })
    }

    #[inline(never)]
    fn ask_receives(&mut self) -> Result<bool, Corrupt> {
        let receives = self.direction().credit.receives();
        if receives.wrapping_sub(self.message) > self.ahead_max {
            return Err(Corrupt("posted receives out of range"));
        }
        self.receives = receives;
        Ok(receives != self.message)
    }

    /// Whether another entry may be sent.
    #[inline(always)]
    pub(crate) fn entry_free(&mut self) -> Result<bool, Corrupt> {
        self.entries.is_free(self.half.direction())
    }

    /// Sends a message of up to [`INLINE`] bytes. The caller has a permit.
    #[inline(always)]
    pub(crate) fn send_inline(&mut self, bytes: &[u8], immediate: Option<u32>) {
        debug_assert!(bytes.len() <= INLINE);
        self.half.slot(self.entries.next).copy_in(bytes);
        self.publish(bytes.len() as u32, immediate, None, false);
    }

    /// Reports `len` bytes that an RDMA has written, by a message of its own. The caller has a
    /// permit.
    pub(crate) fn send_written(&mut self, len: u32, immediate: u32) {
        self.half.slot(self.entries.next).copy_in(&len.to_le_bytes());
        self.publish_word(WRITTEN | IMMEDIATE, immediate, None);
        self.message = self.message.wrapping_add(1);
    }

    /// A place for a longer message or a part of one: its offset, and where to copy `len` bytes to
    /// before [`TxLane::publish`]. `None` while there is no room.
    #[inline]
    pub(crate) fn place(&mut self, len: u32) -> Result<Option<(u32, NonNull<u8>)>, Corrupt> {
        debug_assert!(len as usize <= FRAGMENT);
        let direction = self.half.direction;
        // SAFETY: as in `Half::direction`; taken apart because `place` borrows `self.place`.
        let released = || unsafe { direction.as_ref() }.credit.released();
        let at = self.place.place(len, released)?;
        // SAFETY: `place` returns ranges within the pool.
        Ok(at.map(|at| (at, unsafe { self.half.pool.add(at as usize) })))
    }

    /// Makes the next entry visible to the peer and wakes its sleepers; with `more`, its message
    /// goes on.
    #[inline(always)]
    pub(crate) fn publish(
        &mut self,
        len: u32,
        immediate: Option<u32>,
        pool_offset: Option<u32>,
        more: bool,
    ) {
        let mut word = len;
        if immediate.is_some() {
            word |= IMMEDIATE;
        }
        if more {
            word |= MORE;
        } else {
            self.message = self.message.wrapping_add(1);
        }
        self.publish_word(word, immediate.unwrap_or(0), pool_offset);
    }

    #[inline(always)]
    fn publish_word(&mut self, len: u32, immediate: u32, pool_offset: Option<u32>) {
        self.half
            .slot(self.entries.next)
            .publish(self.entries.next, Entry { immediate, len, pool_offset });
        self.entries.next = self.entries.next.wrapping_add(1);
        let bell = &self.direction().bell;
        // Where a program looks for the answer to a short message at once, the fence makes that 5 ns faster (measured).
        let found = if pool_offset.is_some() { self.quiet.look(bell) } else { bell.look() };
        tell_found(bell, found, |ready_lists| self.attachment().notify(ready_lists));
    }

    /// Messages that the peer has in its memory (reliable reception); at most as many as were
    /// sent.
    pub(crate) fn delivered(&self) -> Result<u32, Corrupt> {
        let word = &self.direction().reader.0[words::R_DELIVERED];
        let delivered = word.load(Ordering::Acquire) as u32;
        if (self.message.wrapping_sub(delivered) as i32) < 0 {
            return Err(Corrupt("more delivered than was sent"));
        }
        Ok(delivered)
    }

    /// Messages sent so far.
    pub(crate) fn sent(&self) -> u32 {
        self.message
    }

    /// A message is dropped for want of a receive; the peer is told how many.
    pub(crate) fn drop_message(&self) {
        let word = &self.direction().writer.0[words::W_DROPPED];
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::SeqCst);
        self.attachment().knock();
    }
}
