//! The descriptors through which host and NIC communicate: one array for sends and receives, as in figure 4 of the
//! paper.
//!
//! The first word of a descriptor names its owner: the host or the NIC. To post, the host writes the other
//! words, then the first word. Then the host puts the descriptor's number into the ring of posts. The NIC executes the
//! descriptor, writes the outcome into the same words, and writes the first word last. Host and NIC share no lock.
//!
//! A message with one piece takes one descriptor. A message with up to seven pieces takes a chain of up to four
//! descriptors. A longer message takes one descriptor with a page of up to 512 pieces. A piece has an address of 48 bits
//! and a length of 16 bits. Unlike in the paper, the addresses are the program's own addresses, so a piece may cross
//! page boundaries.

mod host;
mod nic;
mod outcome;

pub use host::{Handle, Host, Misuse, Piece, PostError};
pub(crate) use nic::Cursor;
pub use nic::{Posted, Posts};
pub use outcome::{Outcome, Status};

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Number of descriptors of a station.
pub const DESCRIPTORS: usize = 640;
/// Maximum number of pieces of a page.
pub const PAGE_PIECES: usize = 512;
/// Maximum number of pieces of a chain.
pub const CHAIN_PIECES: usize = 7;
/// Maximum number of bytes of a piece: the largest number of whole memory pages that 16 bits can count. The host cuts
/// longer pieces.
pub const PIECE_MAX: usize = 60 << 10;
/// Maximum number of bytes of a message.
pub const MESSAGE_MAX: usize = PAGE_PIECES * PIECE_MAX;

/// Entries of the ring of posts: more than the posts and cancellations that the NIC can have waiting.
const RING: usize = 2048;
/// Flag of a ring entry that cancels a receive.
const CANCEL: u16 = 1 << 15;

/// A descriptor: 20 bytes.
///
/// The first word has the owner or the outcome, the kind, and the number of the next descriptor. In the first
/// descriptor of a message, the other words are node (16 bits) and number of pieces (16 bits), tag, and one piece. The
/// other descriptors of a chain have two pieces.
#[derive(Debug)]
pub(crate) struct Descriptor([AtomicU32; 5]);

const _: () = assert!(size_of::<Descriptor>() == 20);

/// Fields of a descriptor's first word.
mod word {
    /// The owner, or the outcome.
    pub(super) const STATE: u32 = 0xff;
    /// The host owns the descriptor, which is free.
    pub(super) const HOST: u32 = 0;
    /// The NIC owns the descriptor.
    pub(super) const NIC: u32 = 1;
    /// Set for a receive.
    pub(super) const RECEIVE: u32 = 1 << 8;
    /// Set for a receive of any tag.
    pub(super) const ANY_TAG: u32 = 1 << 9;
    /// Set if the pieces lie in a page.
    pub(super) const PAGE: u32 = 1 << 10;
    /// Position of the number of descriptors that follow the first one of a chain.
    pub(super) const CHAINED: u32 = 12;
    /// Position of the next descriptor's number.
    pub(super) const NEXT: u32 = 16;
}

type Page = Box<[AtomicU64; PAGE_PIECES]>;

/// The memory that host and NIC share.
#[derive(Debug)]
pub struct Array {
    descriptors: Box<[Descriptor]>,
    /// The page of each descriptor that has had a page.
    pages: Box<[OnceLock<Page>]>,
    /// Number of uses of each descriptor. A handle with an older number is invalid.
    uses: Box<[AtomicU16]>,
    ring: Box<[AtomicU16]>,
    /// Number of entries put into the ring so far.
    posted: AtomicU32,
    /// Number of nodes that the station knows.
    nodes: AtomicU32,
}

impl Default for Array {
    fn default() -> Array {
        Array::new()
    }
}

impl Array {
    /// Returns an array of descriptors that the host owns.
    pub fn new() -> Array {
        let all = |count| core::iter::repeat_n((), count);
        Array {
            descriptors: all(DESCRIPTORS).map(|()| Descriptor(Default::default())).collect(),
            pages: all(DESCRIPTORS).map(|()| OnceLock::new()).collect(),
            uses: all(DESCRIPTORS).map(|()| AtomicU16::new(0)).collect(),
            ring: all(RING).map(|()| AtomicU16::new(0)).collect(),
            posted: AtomicU32::new(0),
            nodes: AtomicU32::new(0),
        }
    }

    /// Sets the number of nodes that the NIC knows.
    pub fn set_nodes(&self, count: usize) {
        // SYNC: none needed. The NIC looks the node up again under its own lock when it takes the post.
        self.nodes.store(count as u32, Ordering::Relaxed);
    }

    fn word(&self, index: u16, word: usize) -> &AtomicU32 {
        &self.descriptors[usize::from(index)].0[word]
    }

    /// Reads a word of a descriptor that the caller owns.
    fn get(&self, index: u16, word: usize) -> u32 {
        // SYNC: the store and load of the first word order the other words.
        self.word(index, word).load(Ordering::Relaxed)
    }

    fn set(&self, index: u16, word: usize, value: u32) {
        // SYNC: the store and load of the first word order the other words.
        self.word(index, word).store(value, Ordering::Relaxed);
    }

    /// Reads the first word, and sees everything written before it.
    fn first(&self, index: u16) -> u32 {
        // SYNC: pairs with the Release store in `publish`.
        self.word(index, 0).load(Ordering::Acquire)
    }

    /// Passes the descriptor to the other side.
    fn publish(&self, index: u16, first: u32) {
        // SYNC: pairs with the Acquire load in `first`.
        self.word(index, 0).store(first, Ordering::Release);
    }

    fn next_of(first: u32) -> u16 {
        (first >> word::NEXT) as u16
    }
}

/// Packs a piece into the format of descriptors.
fn pack(address: u64, length: usize) -> u64 {
    address | (length as u64) << 48
}

fn unpack(piece: u64) -> (u64, u32) {
    (piece & ((1 << 48) - 1), (piece >> 48) as u32)
}
