//! What lies where in a segment.
//!
//! ```text
//! header | connection requests | directions' control blocks | rings | remains | pools and upper layers' areas
//! ```
//! A segment is sparse: address space for [`VIS`] VIs, memory for what has been touched.

use crate::ready_list::{Bell, ReadyList};
use crate::ring::{Credit, SLOTS, Slot};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// VIs of a segment, each with two ends.
pub const VIS: u32 = crate::ready_list::VIS;
/// Ready lists that each side may have.
pub const READY_LISTS: u32 = 32;
/// Doorbells (descriptors) that each side hands to the other.
pub const DOORBELLS: usize = 6;
/// Bytes per direction for the layer above (SOVIA gathers there what the window holds back).
pub const AREA: usize = 8 << 20;
/// Words per direction for the layer above, on lines that the sender writes.
pub const WORDS: usize = 8;

/// Magic number of a Sovia segment; the low byte counts incompatible layouts.
pub const MAGIC: u64 = 0x534f_5649_4153_4d08;

/// First page of a segment.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) sides: [Side; 2],
}

/// What a side publishes of itself.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Side {
    /// Increased at each connection request of this side.
    pub requests: AtomicU32,
    /// Not 0 once this side has left for good.
    pub gone: AtomicU32,
    /// The processor, plus one, on which a thread of this side last waited.
    pub cpu: AtomicU32,
    /// A bit for each ready list of this side that is taken, for a layer above whose forked processes
    /// share them.
    pub taken: AtomicU32,
    /// The process that has taken each of them, in that layer's terms; 0 where that is not known.
    pub takers: [AtomicU64; READY_LISTS as usize],
    /// Changed when this side's registered memory does: what the other side knows of it is void.
    pub regions: AtomicU32,
    /// A bit for each VI with an unanswered request of this side.
    pub pending: [AtomicU64; VIS as usize / 64],
    /// This side's ready lists.
    pub ready_lists: [ReadyList; READY_LISTS as usize],
}

/// Control block of one direction of a VI.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Direction {
    /// The reader's bell: rung when there is a message.
    pub bell: Bell,
    /// The writer's bell: rung when there is room again, or something about the path changed.
    pub room: Bell,
    /// The reader's credit to the writer.
    pub credit: Credit,
    /// For the layer above; written by the writer of the direction.
    pub writer: Words,
    /// For the layer above; written by the reader of the direction.
    pub reader: Words,
    /// For the layer above; the writer's rare words.
    pub path: Words,
}

/// A cache line of words for the layer above.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Words(pub [AtomicU64; WORDS]);

impl Words {
    /// A word, and with it what had been written before its writer stored it.
    #[inline]
    pub fn load(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }

    /// Stores a word after everything that has been written before.
    #[inline]
    pub fn store(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }
}

pub(crate) const REQUESTS_AT: usize = 64 << 10;
pub(crate) const REQUEST_SIZE: usize = 128;
pub(crate) const DIRECTIONS_AT: usize = 256 << 10;
/// Not at a page's beginning: half a page of each ring shares a page with its neighbour; see
/// [`first_entry`].
pub(crate) const RINGS_AT: usize = (4 << 20) + 2048;
pub(crate) const RING_SIZE: usize = size_of::<Slot>() * SLOTS as usize;

/// Number of the first entry in the direction in which `from` sends, for ends that count from
/// there: so the first slots of a VI's two rings lie in one page, all that an idle VI needs.
pub(crate) const fn first_entry(from: usize) -> u32 {
    if from == 0 { SLOTS - 2048 / size_of::<Slot>() as u32 } else { 0 }
}

/// Lists of what readers have left unread, each as large as a ring, in whole pages.
pub(crate) const UNDELIVERED_AT: usize = 21 << 20;
pub(crate) const BULK_AT: usize = 40 << 20;
pub(crate) const BULK_SIZE: usize = AREA + crate::pool::POOL as usize;
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

/// Bytes of a discriminator.
pub const DISCRIMINATOR: usize = 96;

/// A VI's entry in the table of requests ([`crate::request`]).
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Request {
    pub(crate) state: AtomicU32,
    _pad: AtomicU32,
    pub(crate) words: [AtomicU64; DISCRIMINATOR / 8],
}
