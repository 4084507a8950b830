//! The NIC's half: reads posts and their pieces, and reports outcomes.

use super::{Array, CANCEL, Outcome, RING, unpack, word};
use crate::{ANY_NODE, Node};
use core::sync::atomic::Ordering;

/// An entry of the ring of posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// The first descriptor of the post.
    pub index: u16,
    /// Set if the entry cancels an earlier post.
    pub is_cancel: bool,
}

/// The NIC's position in the ring of posts.
#[derive(Debug, Default)]
pub struct Posts {
    taken: u32,
}

impl Posts {
    /// Returns true if the ring has no entry for the NIC.
    pub fn is_empty(&self, array: &Array) -> bool {
        // SYNC: pairs with the Release store in `Host::enter`. A NIC that is about to sleep executes a sequentially
        // consistent fence before this load.
        array.posted.load(Ordering::Acquire) == self.taken
    }

    /// Takes the next entry.
    pub fn next(&mut self, array: &Array) -> Option<Posted> {
        if self.is_empty(array) {
            return None;
        }
        // SYNC: the Acquire load of `posted` comes before this load.
        let entry = array.ring[self.taken as usize % RING].load(Ordering::Relaxed);
        self.taken = self.taken.wrapping_add(1);
        Some(Posted { index: entry & !CANCEL, is_cancel: entry & CANCEL != 0 })
    }
}

/// The send or receive that a descriptor describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) is_receive: bool,
    /// The node; [`ANY_NODE`] for a receive from any node.
    pub(crate) node: Node,
    /// The tag; `None` for a receive of any tag.
    pub(crate) tag: Option<u32>,
    /// Sum of the pieces' lengths.
    pub(crate) length: u32,
}

/// Position of the last access to a message's pieces. Later bytes are found from there on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor {
    /// Number of the piece, and its descriptor.
    piece: u16,
    index: u16,
    /// Position of the piece in the message.
    begins: u32,
}

impl Cursor {
    pub(crate) fn new(index: u16) -> Cursor {
        Cursor { piece: 0, index, begins: 0 }
    }
}

impl Array {
    /// Reads the post at a descriptor.
    pub(crate) fn order(&self, index: u16) -> Order {
        let first = self.first(index);
        let mut length = 0u32;
        self.each_piece(index, Cursor::new(index), |_, _, bytes| {
            length = length.saturating_add(bytes);
            true
        });
        Order {
            is_receive: first & word::RECEIVE != 0,
            node: self.get(index, 1) as Node,
            tag: (first & word::ANY_TAG == 0).then(|| self.get(index, 2)),
            length,
        }
    }

    /// Calls `with` for each piece from the cursor on, until `with` returns false. The arguments are a cursor at the
    /// piece, its address and its length.
    fn each_piece(&self, head: u16, from: Cursor, mut with: impl FnMut(Cursor, u64, u32) -> bool) {
        let first = self.first(head);
        let count = (self.get(head, 1) >> 16) as u16;
        let page = self.pages[usize::from(head)].get().filter(|_| first & word::PAGE != 0);
        let mut at = from;
        while at.piece < count {
            let piece = match page {
                // SYNC: the Acquire load of the first word comes before this load.
                Some(page) => page[usize::from(at.piece)].load(Ordering::Relaxed),
                None => {
                    let word = if at.piece % 2 == 1 { 1 } else { 3 };
                    u64::from(self.get(at.index, word))
                        | u64::from(self.get(at.index, word + 1)) << 32
                }
            };
            let (address, length) = unpack(piece);
            if !with(at, address, length) {
                return;
            }
            if page.is_none() && at.piece.is_multiple_of(2) {
                at.index = Array::next_of(self.get(at.index, 0));
            }
            at = Cursor { piece: at.piece + 1, begins: at.begins + length, ..at };
        }
    }

    /// Calls `with` for the address and length of each part of `len` bytes of a message, from byte `at` on.
    pub(crate) fn parts(
        &self,
        head: u16,
        cursor: &mut Cursor,
        at: u32,
        len: u32,
        mut with: impl FnMut(u64, u32),
    ) {
        let from = if at < cursor.begins { Cursor::new(head) } else { *cursor };
        let (mut at, mut left) = (at, len);
        if left == 0 {
            return;
        }
        self.each_piece(head, from, |here, address, length| {
            let skipped = at - here.begins;
            if skipped >= length {
                return true;
            }
            *cursor = here;
            let bytes = left.min(length - skipped);
            with(address + u64::from(skipped), bytes);
            at += bytes;
            left -= bytes;
            left > 0
        });
    }

    /// Reports the outcome of a send or receive, and returns its descriptors to the host.
    pub(crate) fn complete(&self, index: u16, outcome: &Outcome) {
        let kept = self.first(index) & !word::STATE;
        self.set(index, 1, u32::from(outcome.node));
        self.set(index, 2, outcome.tag);
        self.set(index, 3, outcome.length);
        self.publish(index, kept | outcome.status.code());
    }

    /// Returns true if the station knows the node, or if `node` means any node.
    pub(crate) fn is_node(&self, node: Node) -> bool {
        // SYNC: none needed. The thread that adds a node owns the NIC.
        node == ANY_NODE || u32::from(node) < self.nodes.load(Ordering::Relaxed)
    }
}
