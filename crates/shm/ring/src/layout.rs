//! Layout of a segment.
//!
//! ```text
//! header | connection requests | directions' control blocks | rings | undelivered lists | pools and overflow buffers
//! ```
//! A segment is sparse: it has address space for [`VIS`] VIs, and uses memory only for pages that are written.

use crate::ready_list::{ReadyList, WakeWord};
use crate::ring::{Credit, SLOTS, Slot};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Number of VIs of a segment, each with two ends.
pub const VIS: u32 = crate::ready_list::VIS;
/// Maximum number of ready lists of each side.
pub const READY_LISTS: u32 = 32;
/// Number of doorbells (file descriptors) that each side passes to the other.
pub const DOORBELLS: usize = 6;
/// Size of a direction's overflow buffer in bytes. The sockets layer appends bytes to this buffer while the window
/// is used up.
pub const OVERFLOW_BUFFER: usize = 8 << 20;
/// Number of words in each [`Words`].
pub const WORDS: usize = 8;

/// Magic number of a Sovia segment. The low byte counts incompatible layouts.
pub const MAGIC: u64 = 0x534f_5649_4153_4d0b;

/// First page of a segment.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) sides: [Side; 2],
}

/// Words of the header that one side writes.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Side {
    /// Set to a nonzero value once this side's process has left for good.
    pub gone: AtomicU32,
    /// Number (plus one) of the processor on which a thread of this side last waited.
    pub cpu: AtomicU32,
    /// A bit for each ready list of this side that is in use. Only for the sockets layer, whose forked processes
    /// share the ready lists.
    pub taken: AtomicU32,
    /// For each ready list, the process that uses the list, as a number that the sockets layer chooses; 0 if
    /// unknown.
    pub takers: [AtomicU64; READY_LISTS as usize],
    /// Changed whenever this side's registered memory changes. After a change, data that the other side has stored
    /// about a region is invalid.
    pub regions: AtomicU32,
    /// A bit for each group of VIs in which this side may have an unanswered request ([`crate::request`]).
    pub pending: AtomicU64,
    /// Report of a NIC in software about the messages of the other side's process. The high half is the last second with
    /// messages. The low half is the greatest number of messages in flight in this second and the one before.
    pub in_flight: AtomicU64,
    /// This side's ready lists.
    pub ready_lists: [ReadyList; READY_LISTS as usize],
}

/// Control block of one direction of a VI.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Direction {
    /// Threads and ready lists of the reader. The writer notifies these threads and ready lists when it has sent a
    /// message.
    pub wake_word: WakeWord,
    /// Threads and ready lists of the writer. The reader notifies these threads and ready lists when there is room
    /// again, or when the path has changed.
    pub room: WakeWord,
    /// The reader's credit to the writer.
    pub credit: Credit,
    /// Words for the layer above, written by the writer of the direction.
    pub writer: Words,
    /// Words for the layer above, written by the reader of the direction.
    pub reader: Words,
    /// Words for the layer above, which change rarely. The writer and the reader of the direction write them.
    pub path: Words,
}

/// A cache line of words for the layer above.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Words(pub [AtomicU64; WORDS]);

impl Words {
    /// Loads a word, with Acquire order. The load pairs with [`Words::store`].
    #[inline]
    pub fn load(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }

    /// Stores a word, with Release order.
    #[inline]
    pub fn store(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }
}

pub(crate) const REQUESTS_AT: usize = 64 << 10;
pub(crate) const REQUEST_SIZE: usize = 128;
pub(crate) const DIRECTIONS_AT: usize = 256 << 10;
/// Offset of the first ring in the segment: half a page behind a page boundary. So the end of each ring shares a
/// page with the start of the next ring. Native VIs begin in that page.
pub(crate) const RINGS_AT: usize = (4 << 20) + 2048;
pub(crate) const RING_SIZE: usize = size_of::<Slot>() * SLOTS as usize;

/// Offset of the lists of undelivered messages in the segment. Each list is as large as a ring, and starts at a
/// page boundary.
pub(crate) const UNDELIVERED_AT: usize = 21 << 20;
pub(crate) const BULK_AT: usize = 40 << 20;
pub(crate) const BULK_SIZE: usize = OVERFLOW_BUFFER + crate::pool::POOL as usize;
/// A segment's size in bytes.
pub const SEGMENT: usize = BULK_AT + 2 * VIS as usize * BULK_SIZE;

const _: () = {
    assert!(size_of::<Header>() <= REQUESTS_AT);
    assert!(REQUESTS_AT + REQUEST_SIZE * VIS as usize <= DIRECTIONS_AT);
    assert!(DIRECTIONS_AT + 2 * VIS as usize * size_of::<Direction>() <= RINGS_AT);
    assert!(RINGS_AT + 2 * VIS as usize * RING_SIZE <= UNDELIVERED_AT);
    assert!(UNDELIVERED_AT + 2 * VIS as usize * RING_SIZE <= BULK_AT);
    assert!(RING_SIZE.is_multiple_of(4096));
    assert!(BULK_SIZE.is_multiple_of(4096));
};

/// Size of a discriminator in bytes.
pub const DISCRIMINATOR: usize = 96;

/// A VI's entry in the table of requests ([`crate::request`]).
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Request {
    pub(crate) state: AtomicU32,
    _pad: AtomicU32,
    pub(crate) words: [AtomicU64; DISCRIMINATOR / 8],
}
