//! The descriptors by which host and NIC speak: one array for sends and receives, as in figure 4 of the paper.
//!
//! A descriptor belongs to the host or to the NIC, as its first word says. The host writes the others, then that word, and puts
//! the descriptor's number into the ring of posts; the NIC does what it says, writes what has come of it into the same
//! words, then the first one. There is no lock between the two.
//!
//! A message has one descriptor with one piece, a chain of up to four with seven, or one that leads to a page of
//! up to 512. A piece is an address of 48 bits and a length of 16. Unlike the paper's these are the program's own addresses, so
//! that a piece may reach over the ends of pages.

mod host;
mod nic;
mod outcome;

pub use host::{Handle, Host, Misuse, Piece, PostError};
pub(crate) use nic::Cursor;
pub use nic::{Posted, Posts};
pub use outcome::{Outcome, Status};

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Descriptors of a station.
pub const DESCRIPTORS: usize = 640;
/// Pieces of a page.
pub const PAGE_PIECES: usize = 512;
/// Pieces of a chain.
pub const CHAIN_PIECES: usize = 7;
/// Bytes of a piece at most: whole pages of a program's memory that 16 bits can count. A longer one is cut into such pieces.
pub const PIECE_MAX: usize = 60 << 10;
/// Bytes of a message at most.
pub const MESSAGE_MAX: usize = PAGE_PIECES * PIECE_MAX;

/// Entries of the ring of posts: more than there can be posts and cancellations that the NIC has not taken.
const RING: usize = 2048;
/// Of such an entry: the receive is to be cancelled.
const CANCEL: u16 = 1 << 15;

/// A descriptor: 20 bytes.
///
/// The first word has its owner (or what has come of it), what it is, and the next of its chain; then, of a message's first
/// one: node (16 bits) and number of pieces (16), tag, a piece. The others of a chain have two pieces.
#[derive(Debug)]
pub(crate) struct Descriptor([AtomicU32; 5]);

const _: () = assert!(size_of::<Descriptor>() == 20);

/// What the first word has.
mod word {
    /// The owner, or what has come of it.
    pub(super) const STATE: u32 = 0xff;
    /// The host's, and free.
    pub(super) const HOST: u32 = 0;
    /// The NIC's.
    pub(super) const NIC: u32 = 1;
    /// It is a receive.
    pub(super) const RECEIVE: u32 = 1 << 8;
    /// A receive of any tag.
    pub(super) const ANY_TAG: u32 = 1 << 9;
    /// The pieces lie in a page.
    pub(super) const PAGE: u32 = 1 << 10;
    /// Where it is said how many follow the first of a chain.
    pub(super) const CHAINED: u32 = 12;
    /// Where the number of the next descriptor lies.
    pub(super) const NEXT: u32 = 16;
}

type Page = Box<[AtomicU64; PAGE_PIECES]>;

/// What host and NIC share.
#[derive(Debug)]
pub struct Array {
    descriptors: Box<[Descriptor]>,
    /// The page of each descriptor that has ever had one.
    pages: Box<[OnceLock<Page>]>,
    /// How often each descriptor has been used: a handle that is older names nothing.
    uses: Box<[AtomicU16]>,
    ring: Box<[AtomicU16]>,
    /// Entries that have been put into the ring so far.
    posted: AtomicU32,
    /// Nodes that the station knows.
    nodes: AtomicU32,
}

impl Default for Array {
    fn default() -> Array {
        Array::new()
    }
}

impl Array {
    /// All descriptors are the host's.
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

    /// The NIC knows so many nodes from now on.
    pub fn set_nodes(&self, count: usize) {
        // SYNC: a post is taken by the NIC under its own lock, where it looks the node up.
        self.nodes.store(count as u32, Ordering::Relaxed);
    }

    fn word(&self, index: u16, word: usize) -> &AtomicU32 {
        &self.descriptors[usize::from(index)].0[word]
    }

    /// Reads a word that the descriptor's owner may change: the caller owns it.
    fn get(&self, index: u16, word: usize) -> u32 {
        // SYNC: the first word's store and load order the others.
        self.word(index, word).load(Ordering::Relaxed)
    }

    fn set(&self, index: u16, word: usize, value: u32) {
        // SYNC: as in `get`.
        self.word(index, word).store(value, Ordering::Relaxed);
    }

    /// The first word, with all that was written before it.
    fn first(&self, index: u16) -> u32 {
        // SYNC: with the release of `publish`.
        self.word(index, 0).load(Ordering::Acquire)
    }

    /// Gives the descriptor, with its other words, to the other side.
    fn publish(&self, index: u16, first: u32) {
        // SYNC: with the acquire of `first`.
        self.word(index, 0).store(first, Ordering::Release);
    }

    fn next_of(first: u32) -> u16 {
        (first >> word::NEXT) as u16
    }
}

/// A piece as descriptors have it.
fn pack(address: u64, length: usize) -> u64 {
    address | (length as u64) << 48
}

fn unpack(piece: u64) -> (u64, u32) {
    (piece & ((1 << 48) - 1), (piece >> 48) as u32)
}
