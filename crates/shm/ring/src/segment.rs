//! A segment, the shared memory of two processes.

use crate::Corrupt;
use crate::layout::{
    BULK_AT, BULK_SIZE, DIRECTIONS_AT, Direction, Header, MAGIC, READY_LISTS, REQUEST_SIZE,
    REQUESTS_AT, RING_SIZE, RINGS_AT, Request, SEGMENT, Side, UNDELIVERED_AT, VIS,
};
use crate::pool::POOL;
use crate::range::{Bulk, Range};
use crate::ready_list::ReadyList;
use crate::ring::{SLOTS, Slot};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use sovia_sys::call::RawFd;
use sovia_sys::{Fd, Mapping, mapping};

/// Identifies one of the two processes. The process that created the segment is side 0.
pub type SideIndex = usize;

/// A mapped segment.
///
/// ```
/// use sovia_ring::Segment;
///
/// let (segment, fd) = Segment::create().expect("memory");
/// // Usually another process calls `attach`, with the file descriptor that it has received.
/// let same = Segment::attach(&fd)?;
/// same.direction(3, 0).path.store(0, 17);
/// assert_eq!(segment.direction(3, 0).path.load(0), 17);
/// # Ok::<(), sovia_ring::segment::AttachError>(())
/// ```
#[derive(Debug)]
pub struct Segment {
    mapping: Mapping,
}

impl Segment {
    /// Creates a segment. Returns the segment, and a file descriptor to pass to the other process.
    ///
    /// # Errors
    /// The error of memfd_create, of fcntl (seals) or of mmap. Memory may be short, or the size of files or of the
    /// address space may be limited.
    pub fn create() -> sovia_sys::Result<(Segment, Fd)> {
        let fd = mapping::sealed_memory(c"sovia", SEGMENT as u64)?;
        let segment = Segment { mapping: Mapping::shared_with_programs(fd.raw(), SEGMENT)? };
        segment.header().magic.store(MAGIC, Ordering::Release);
        Ok((segment, fd))
    }

    /// Maps a segment that the other process has created.
    ///
    /// # Errors
    /// [`AttachError`] if the file is not a segment, or cannot be mapped.
    pub fn attach(fd: &Fd) -> Result<Segment, AttachError> {
        Segment::attach_by(fd, Mapping::shared_with_programs)
    }

    /// Maps a segment that a process of the same side has mapped at the address `base`. The endpoints in the memory
    /// that this process shares with that one contain addresses in the segment.
    ///
    /// # Errors
    /// Same as [`Segment::attach`]. [`AttachError::Map`] if this process has other memory at the address.
    pub fn attach_at(base: usize, fd: &Fd) -> Result<Segment, AttachError> {
        Segment::attach_by(fd, |fd, len| Mapping::shared_at(base, fd, len))
    }

    fn attach_by(
        fd: &Fd,
        map: impl FnOnce(RawFd, usize) -> sovia_sys::Result<Mapping>,
    ) -> Result<Segment, AttachError> {
        if !mapping::is_sealed_memory(fd.raw(), SEGMENT as u64) {
            return Err(AttachError::Seals);
        }
        let segment = Segment { mapping: map(fd.raw(), SEGMENT).map_err(AttachError::Map)? };
        if segment.header().magic.load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::Layout);
        }
        Ok(segment)
    }

    /// Returns the segment's address in this process.
    pub fn base(&self) -> usize {
        self.mapping.base() as usize
    }

    #[inline]
    fn at<T>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= SEGMENT && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: the assertion keeps the `T` within the mapping, and aligned. Every `T` used consists of atomics, for
        // which any bytes are valid and concurrent writes are no data race.
        unsafe { &*self.mapping.base().add(offset).cast::<T>() }
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        self.at(0)
    }

    /// Returns the words of the header that `side` writes.
    #[inline]
    pub fn side(&self, side: SideIndex) -> &Side {
        &self.header().sides[side & 1]
    }

    /// Returns ready list `index` of `side`.
    #[inline]
    pub fn ready_list(&self, side: SideIndex, index: u32) -> &ReadyList {
        &self.side(side).ready_lists[(index % READY_LISTS) as usize]
    }

    /// Returns the connection request of a VI.
    pub fn request(&self, vi: u32) -> &Request {
        self.at(REQUESTS_AT + REQUEST_SIZE * Self::place(vi))
    }

    /// Returns the index of a VI's memory in the segment's tables. Side 0 requests the even VIs, and side 1 the odd
    /// ones. The memory of the even VIs comes first, so the memory that one side's VIs use lies together.
    #[inline]
    fn place(vi: u32) -> usize {
        let half = VIS as usize / 2;
        (vi % VIS) as usize / 2 + if vi.is_multiple_of(2) { 0 } else { half }
    }

    #[inline]
    fn lane(vi: u32, from: SideIndex) -> usize {
        Self::place(vi) * 2 + (from & 1)
    }

    /// Returns the control block of the direction of `vi` in which `from` sends.
    #[inline]
    pub fn direction(&self, vi: u32, from: SideIndex) -> &Direction {
        self.at(DIRECTIONS_AT + size_of::<Direction>() * Self::lane(vi, from))
    }

    /// Returns the ring of the direction of `vi` in which `from` sends.
    pub fn slots(&self, vi: u32, from: SideIndex) -> &[Slot; SLOTS as usize] {
        self.at(RINGS_AT + RING_SIZE * Self::lane(vi, from))
    }

    /// Returns the list of undelivered messages of the direction of `vi` in which `from` sends; see
    /// [`crate::undelivered`].
    pub fn undelivered(&self, vi: u32, from: SideIndex) -> &[Slot; SLOTS as usize] {
        self.at(UNDELIVERED_AT + RING_SIZE * Self::lane(vi, from))
    }

    fn bulk(&self, vi: u32, from: SideIndex) -> usize {
        BULK_AT + BULK_SIZE * Self::lane(vi, from)
    }

    /// Returns the address of the pool of the direction of `vi` in which `from` sends. The pool has [`POOL`] bytes. The
    /// direction's overflow buffer lies directly behind the pool.
    pub fn pool(&self, vi: u32, from: SideIndex) -> NonNull<u8> {
        let pool = self.mapping.base().wrapping_add(self.bulk(vi, from));
        NonNull::new(pool).expect("no mapping begins at address 0")
    }

    /// Returns the pool and the overflow buffer of the direction of `vi` in which `from` sends, as one range.
    fn range(&self, vi: u32, from: SideIndex) -> Bulk<'_> {
        // SAFETY: the overflow buffer lies directly behind the pool. The pool and the overflow buffer are in the
        // mapping of `self`, which outlives the range.
        unsafe { Range::new(self.pool(vi, from)) }
    }

    /// Copies bytes from offset `at` of a direction's pool and overflow buffer to `out`. Returns false if these
    /// bytes do not all lie in the pool and the overflow buffer.
    pub fn read_bulk(&self, vi: u32, from: SideIndex, at: usize, out: &mut [u8]) -> bool {
        self.range(vi, from).read(at, out)
    }

    /// Copies `bytes` to offset `at` of a direction's pool and overflow buffer. Returns false if the pool and the
    /// overflow buffer end before the last byte.
    pub fn write_bulk(&self, vi: u32, from: SideIndex, at: usize, bytes: &[u8]) -> bool {
        self.range(vi, from).write(at, bytes)
    }

    /// Checks that the header still has its magic number.
    ///
    /// # Errors
    /// [`Corrupt`] if another process has overwritten the magic number.
    pub fn check(&self) -> Result<(), Corrupt> {
        match self.header().magic.load(Ordering::Relaxed) {
            MAGIC => Ok(()),
            _ => Err(Corrupt("header overwritten")),
        }
    }

    /// Resets a VI for its next connection. The side that requests the VI calls this function while neither end
    /// uses the VI. In the VI's `first` generation the rings still consist of zeros. Clearing them would only
    /// allocate memory.
    pub fn recycle(&self, vi: u32, first: bool) {
        for from in 0..2 {
            for slot in self.slots(vi, from).iter().filter(|_| !first) {
                slot.clear();
            }
            let direction = self.direction(vi, from);
            direction.wake_word.clear();
            direction.room.clear();
            direction.credit.post(SLOTS);
            direction.credit.post_receives(0);
            direction.credit.release(0);
            for words in [&direction.writer, &direction.reader, &direction.path] {
                for word in &words.0 {
                    word.store(0, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns memory of a VI to the kernel, including its two lists of undelivered messages. Each of its pools and
    /// overflow buffers keeps its first `keep` bytes.
    pub fn trim(&self, vi: u32, keep: usize) {
        for from in 0..2 {
            let at = self.bulk(vi, from);
            self.mapping.discard(at + keep, POOL as usize - keep);
            let overflow_buffer = at + POOL as usize;
            self.mapping.discard(overflow_buffer + keep, crate::layout::OVERFLOW_BUFFER - keep);
            self.mapping.discard(UNDELIVERED_AT + RING_SIZE * Self::lane(vi, from), RING_SIZE);
        }
    }
}

/// Reason why a peer's segment cannot be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The file descriptor does not refer to a memory file, or the file has the wrong size or is not sealed against
    /// shrinking.
    #[error("the peer's file is not a sealed memory file of a segment's size")]
    Seals,
    /// The segment's layout is that of another version.
    #[error("the peer's segment has another version of the layout")]
    Layout,
    /// mmap failed.
    #[error("cannot map the segment: {}", sovia_sys::described(*.0))]
    Map(sovia_sys::Errno),
}
