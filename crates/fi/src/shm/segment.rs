//! The memory by which one process sends to another: a ring of slots and a pool.
//!
//! A segment has one writer and one reader. Slot `n % SLOTS` takes message `n`: the writer fills it and stores its head,
//! in which there is `n + 1`, last. Two slots are one cache line, so a message of a few bytes, the news of it and the
//! message behind it come together. A longer one takes both slots of a line: the writer marks the second one as empty, and
//! so the second one of the line before, if that is free. The two heads of a line have places of their own, where no bytes of a
//! message ever lie.
//!
//! The bytes of a message of up to [`INLINE`] lie in its line. Those of a longer one lie in the pool, each message's where the
//! one before ended, so both ends know the place. Its head has a line to itself, for the reader takes that away while the
//! writer copies the next message's bytes.
//!
//! The reader gives slots and pool back in the order of the messages, in [`Credit`], which the writer reads only when it
//! needs room.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_sys::{Fd, Mapping, Result, cache, mapping};
use std::sync::Arc;

/// Slots of a ring.
pub(super) const SLOTS: u32 = 512;
/// Slots of a line.
pub(super) const IN_LINE: u32 = 2;
/// Bytes of the pool.
pub(super) const POOL: usize = 512 << 10;
/// Bytes of a message that takes one slot only.
pub(super) const SMALL: usize = 8;
/// Bytes of a message that lie in its line.
pub(super) const INLINE: usize = 32;
/// The kind in the head of a slot without a message.
pub(super) const EMPTY: u8 = 0;
/// To this the places in the pool are rounded up.
const LINE: usize = 64;

const SLOTS_AT: usize = 4096;
const POOL_AT: usize = SLOTS_AT + (SLOTS / IN_LINE) as usize * LINE;
const SEGMENT: usize = POOL_AT + POOL;
const _: () = assert!(POOL_AT.is_multiple_of(4096) && size_of::<Line>() == LINE);

/// What a message says beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head {
    /// What it is.
    pub(crate) kind: u8,
    /// Bytes behind the head; less than 2^24.
    pub(crate) len: u32,
    /// The tag, or another number.
    pub(crate) tag: u64,
    /// The data for the completion queue, or another number.
    pub(crate) data: u64,
}

/// One cache line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Line {
    /// From the lowest bit: the number, 32 bits; the length, 24; the kind, 8.
    heads: [AtomicU64; IN_LINE as usize],
    rooms: [Room; IN_LINE as usize],
}

/// What a slot has beside its head.
#[derive(Debug)]
#[repr(C)]
struct Room {
    tag: AtomicU64,
    data: AtomicU64,
    bytes: AtomicU64,
}

/// A slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot<'a> {
    line: &'a Line,
    half: usize,
}

/// What the reader gives back.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Credit {
    /// Messages read so far.
    messages: AtomicU32,
    /// Position in the pool up to which it has been read.
    pool: AtomicU64,
}

impl Slot<'_> {
    /// The number in it, and what else is in its head word.
    #[inline(always)]
    pub(super) fn head(&self) -> (u32, u64) {
        // SYNC: pairs with the Release store in `publish`; what was written before it is seen.
        let head = self.line.heads[self.half].load(Ordering::Acquire);
        (head as u32, head)
    }

    /// What the message says whose head word that is.
    #[inline(always)]
    pub(super) fn read(&self, head: u64) -> Head {
        let room = &self.line.rooms[self.half];
        Head {
            kind: (head >> 56) as u8,
            len: (head >> 32) as u32 & 0xff_ffff,
            tag: room.tag.load(Ordering::Relaxed),
            data: room.data.load(Ordering::Relaxed),
        }
    }

    /// Where its bytes lie: [`SMALL`] of them, or [`INLINE`] if it is the first of its line.
    #[inline(always)]
    pub(super) fn bytes(&self) -> *mut u8 {
        const BYTES: usize = core::mem::offset_of!(Room, bytes);
        const _: () = assert!(BYTES + SMALL == size_of::<Room>());
        const _: () = assert!(INLINE == SMALL + size_of::<Room>());
        // From the line and not from the word: they go on behind that.
        let at = core::mem::offset_of!(Line, rooms) + self.half * size_of::<Room>() + BYTES;
        core::ptr::from_ref(self.line).cast::<u8>().cast_mut().wrapping_add(at)
    }

    /// Its line is fetched, to be read soon.
    #[inline(always)]
    pub(super) fn will_be_read(&self) {
        cache::will_read(core::ptr::from_ref(self.line).cast());
    }

    /// Its line is fetched, to be written soon.
    #[inline(always)]
    pub(super) fn will_be_written(&self) {
        cache::will_write(core::ptr::from_ref(self.line).cast());
    }

    /// Makes message `n` visible, whose bytes have been written.
    #[inline(always)]
    pub(super) fn publish(&self, n: u32, head: Head) {
        let room = &self.line.rooms[self.half];
        room.tag.store(head.tag, Ordering::Relaxed);
        room.data.store(head.data, Ordering::Relaxed);
        self.mark(n, head.len, head.kind);
    }

    /// Says that there is no message in it.
    #[inline(always)]
    pub(super) fn leave_empty(&self, n: u32) {
        self.mark(n, 0, EMPTY);
    }

    #[inline(always)]
    fn mark(&self, n: u32, len: u32, kind: u8) {
        let rest = u64::from(len & 0xff_ffff) << 32 | u64::from(kind) << 56;
        // SYNC: the reader's Acquire load sees all that was stored before, in the pool as well.
        self.line.heads[self.half].store(u64::from(n.wrapping_add(1)) | rest, Ordering::Release);
    }
}

impl Credit {
    /// Messages read, and how far the pool has been.
    #[inline]
    pub(super) fn load(&self) -> (u32, u64) {
        // SYNC: pairs with `store`: the reader is done with what this covers.
        let messages = self.messages.load(Ordering::Acquire);
        (messages, self.pool.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn store(&self, messages: u32, pool: u64) {
        self.pool.store(pool, Ordering::Release);
        self.messages.store(messages, Ordering::Release);
    }
}

/// A mapped segment.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// Where it begins: one step less to each message.
    base: *mut u8,
    _mapping: Arc<Mapping>,
}

// SAFETY: as for the mapping, which it keeps.
unsafe impl Send for Segment {}
// SAFETY: likewise.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new one; the descriptor is for the reader.
    pub(super) fn create() -> Result<(Segment, Fd)> {
        let fd = mapping::sealed_memory(c"sovia-fi", SEGMENT as u64)?;
        let mapping = Mapping::shared(fd.raw(), SEGMENT)?;
        Ok((Segment::of(mapping), fd))
    }

    /// One that the writer has sent; `None` if it is no such memory.
    pub(super) fn attach(fd: &Fd) -> Option<Segment> {
        if !mapping::is_sealed_memory(fd.raw(), SEGMENT as u64) {
            return None;
        }
        Some(Segment::of(Mapping::shared(fd.raw(), SEGMENT).ok()?))
    }

    fn of(mapping: Mapping) -> Segment {
        Segment { base: mapping.base(), _mapping: Arc::new(mapping) }
    }

    #[inline]
    pub(super) fn credit(&self) -> &Credit {
        // SAFETY: it lies in the mapping's first page and consists of atomics, for which all bytes are valid and
        // concurrent writes are no race.
        unsafe { &*self.base.cast::<Credit>() }
    }

    #[inline(always)]
    pub(super) fn slot(&self, n: u32) -> Slot<'_> {
        let at = SLOTS_AT + (n % SLOTS / IN_LINE) as usize * LINE;
        // SAFETY: as above; the index is bounded.
        let line = unsafe { &*self.base.add(at).cast::<Line>() };
        Slot { line, half: (n % IN_LINE) as usize }
    }

    /// The pool's byte at that position; [`place`] says which positions are followed by how many bytes.
    #[inline]
    pub(super) fn pool(&self, position: u64) -> *mut u8 {
        let at = POOL_AT + (position % POOL as u64) as usize;
        // SAFETY: less than the mapping's length.
        unsafe { self.base.add(at) }
    }
}

/// Where in the pool `len` bytes lie, if the ones before ended at `from`: the position of the first, and where the next
/// may begin. They are in one piece.
#[inline]
pub(super) fn place(from: u64, len: usize) -> (u64, u64) {
    let rounded = len.next_multiple_of(LINE) as u64;
    let offset = from % POOL as u64;
    let start = if offset + rounded > POOL as u64 { from + (POOL as u64 - offset) } else { from };
    (start, start + rounded)
}
