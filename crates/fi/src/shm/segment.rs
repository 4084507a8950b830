//! Memory through which one process sends to another: a ring of slots, and a pool.
//!
//! A segment has one writer and one reader. Slot `n % SLOTS` takes message `n`. The writer fills the slot and stores
//! its head last. The head contains `n + 1`.
//!
//! Two slots share one cache line. So one transfer of the line brings a short message, its head and the next short
//! message. A longer message takes both slots of a line, and the writer marks the second slot as empty. If the second
//! slot of the line before is still free, the writer marks it as empty too. The two heads of a line have fixed places,
//! where no bytes of a message ever lie.
//!
//! The bytes of a message of up to [`INLINE`] bytes lie in its line. The bytes of a longer message lie in the pool,
//! after the bytes of the message before, so both ends know the place. The head of such a message has a line to itself.
//! The reader fetches this line while the writer copies the bytes of the next message.
//!
//! The reader returns slots and pool bytes in order, through [`Credit`]. The writer reads [`Credit`] only when it needs
//! room.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_sys::{Fd, Mapping, Result, cache, mapping};
use std::sync::Arc;

/// Number of slots in a ring.
pub(super) const SLOTS: u32 = 512;
/// Number of slots in a cache line.
pub(super) const IN_LINE: u32 = 2;
/// Length of the pool in bytes.
pub(super) const POOL: usize = 512 << 10;
/// Maximum number of bytes of a message that takes only one slot.
pub(super) const SMALL: usize = 8;
/// Maximum number of bytes of a message that lies in its line.
pub(super) const INLINE: usize = 32;
/// The kind in the head of a slot without a message.
pub(super) const EMPTY: u8 = 0;
/// Alignment of messages in the pool.
const LINE: usize = 64;

const SLOTS_AT: usize = 4096;
const POOL_AT: usize = SLOTS_AT + (SLOTS / IN_LINE) as usize * LINE;
const SEGMENT: usize = POOL_AT + POOL;
const _: () = assert!(POOL_AT.is_multiple_of(4096) && size_of::<Line>() == LINE);

/// The fields of a message before its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head {
    /// Kind of the message: see `wire`.
    pub(crate) kind: u8,
    /// Number of bytes of the message, less than 2^24.
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
    /// Head words. From the lowest bit: message number plus 1 (32 bits), length (24 bits), kind (8 bits).
    heads: [AtomicU64; IN_LINE as usize],
    rooms: [Room; IN_LINE as usize],
}

/// The part of a slot beside its head word.
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

/// The reader's returned slots and pool bytes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Credit {
    /// Number of messages read so far.
    messages: AtomicU32,
    /// Position in the pool up to which the reader has read.
    pool: AtomicU64,
}

impl Slot<'_> {
    /// Returns the number in the head word, and the head word.
    #[inline(always)]
    pub(super) fn head(&self) -> (u32, u64) {
        // SYNC: pairs with the Release store in `mark`. The reader sees everything that the writer stored before.
        let head = self.line.heads[self.half].load(Ordering::Acquire);
        (head as u32, head)
    }

    /// Decodes the head word, and reads the other fields of the slot.
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

    /// Returns the address of the slot's bytes: [`SMALL`] bytes, or [`INLINE`] bytes in the first slot of a line.
    #[inline(always)]
    pub(super) fn bytes(&self) -> *mut u8 {
        const BYTES: usize = core::mem::offset_of!(Room, bytes);
        const _: () = assert!(BYTES + SMALL == size_of::<Room>());
        const _: () = assert!(INLINE == SMALL + size_of::<Room>());
        // The pointer comes from the line, not from the `bytes` word, because the bytes extend beyond this word.
        let at = core::mem::offset_of!(Line, rooms) + self.half * size_of::<Room>() + BYTES;
        core::ptr::from_ref(self.line).cast::<u8>().cast_mut().wrapping_add(at)
    }

    /// Prefetches the line of this slot for reading.
    #[inline(always)]
    pub(super) fn will_be_read(&self) {
        cache::will_read(core::ptr::from_ref(self.line).cast());
    }

    /// Prefetches the line of this slot for writing.
    #[inline(always)]
    pub(super) fn will_be_written(&self) {
        cache::will_write(core::ptr::from_ref(self.line).cast());
    }

    /// Publishes message `n`, whose bytes the writer has written.
    #[inline(always)]
    pub(super) fn publish(&self, n: u32, head: Head) {
        let room = &self.line.rooms[self.half];
        room.tag.store(head.tag, Ordering::Relaxed);
        room.data.store(head.data, Ordering::Relaxed);
        self.mark(n, head.len, head.kind);
    }

    /// Marks the slot as empty.
    #[inline(always)]
    pub(super) fn leave_empty(&self, n: u32) {
        self.mark(n, 0, EMPTY);
    }

    #[inline(always)]
    fn mark(&self, n: u32, len: u32, kind: u8) {
        let rest = u64::from(len & 0xff_ffff) << 32 | u64::from(kind) << 56;
        // SYNC: pairs with the Acquire load in `head`. The reader sees everything stored before, also in the pool.
        self.line.heads[self.half].store(u64::from(n.wrapping_add(1)) | rest, Ordering::Release);
    }
}

impl Credit {
    /// Returns the number of messages read, and the position in the pool up to which the reader has read.
    #[inline]
    pub(super) fn load(&self) -> (u32, u64) {
        // SYNC: pairs with the Release stores in `store`. The reader no longer accesses the slots and pool bytes that
        // it has returned.
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
    /// Start of the mapping, stored here to save a pointer dereference for each message.
    base: *mut u8,
    _mapping: Arc<Mapping>,
}

// SAFETY: `base` points into the mapping, which the segment keeps alive. The mapping may move between threads.
unsafe impl Send for Segment {}
// SAFETY: all shared access to the mapping goes through atomics, or through pointers whose users state their own
// invariants.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates a segment. The descriptor is for the reader.
    pub(super) fn create() -> Result<(Segment, Fd)> {
        let fd = mapping::sealed_memory(c"sovia-fi", SEGMENT as u64)?;
        let mapping = Mapping::shared(fd.raw(), SEGMENT)?;
        Ok((Segment::of(mapping), fd))
    }

    /// Maps a segment that a writer has sent; `None` if the descriptor is no sealed memory of the right size.
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
        // SAFETY: `Credit` lies in the mapping's first page. It consists of atomics, for which all bytes are valid and
        // concurrent writes are no data race.
        unsafe { &*self.base.cast::<Credit>() }
    }

    #[inline(always)]
    pub(super) fn slot(&self, n: u32) -> Slot<'_> {
        let at = SLOTS_AT + (n % SLOTS / IN_LINE) as usize * LINE;
        // SAFETY: the index is bounded by `SLOTS`, so the line lies in the mapping. `Line` consists of atomics, for
        // which all bytes are valid and concurrent writes are no data race.
        let line = unsafe { &*self.base.add(at).cast::<Line>() };
        Slot { line, half: (n % IN_LINE) as usize }
    }

    /// Returns the address of a position in the pool. [`place`] returns positions and the number of bytes that follow.
    #[inline]
    pub(super) fn pool(&self, position: u64) -> *mut u8 {
        let at = POOL_AT + (position % POOL as u64) as usize;
        // SAFETY: the offset is less than the mapping's length.
        unsafe { self.base.add(at) }
    }
}

/// Returns the position of `len` contiguous bytes in the pool, and the position where the next message may begin. The
/// bytes of the message before end at `from`.
#[inline]
pub(super) fn place(from: u64, len: usize) -> (u64, u64) {
    let rounded = len.next_multiple_of(LINE) as u64;
    let offset = from % POOL as u64;
    let start = if offset + rounded > POOL as u64 { from + (POOL as u64 - offset) } else { from };
    (start, start + rounded)
}
