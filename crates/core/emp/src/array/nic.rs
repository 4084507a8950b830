//! The NIC's half: what has been posted, where its pieces lie, and what has come of it.

use super::{Array, CANCEL, Outcome, RING, unpack, word};
use crate::{ANY_NODE, Node};
use core::sync::atomic::Ordering;

/// An entry of the ring of posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// The first descriptor.
    pub index: u16,
    /// It was posted before, and is to be cancelled.
    pub is_cancel: bool,
}

/// How far the NIC has read the ring of posts.
#[derive(Debug, Default)]
pub struct Posts {
    taken: u32,
}

impl Posts {
    /// Whether there is an entry.
    pub fn is_empty(&self, array: &Array) -> bool {
        // SYNC: with the release of `Host::enter`; sequentially consistent with the fence of a NIC about to sleep.
        array.posted.load(Ordering::Acquire) == self.taken
    }

    /// The next entry.
    pub fn next(&mut self, array: &Array) -> Option<Posted> {
        if self.is_empty(array) {
            return None;
        }
        // SYNC: behind the acquire of `posted`.
        let entry = array.ring[self.taken as usize % RING].load(Ordering::Relaxed);
        self.taken = self.taken.wrapping_add(1);
        Some(Posted { index: entry & !CANCEL, is_cancel: entry & CANCEL != 0 })
    }
}

/// What a descriptor asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) is_receive: bool,
    /// [`ANY_NODE`] of a receive from any.
    pub(crate) node: Node,
    /// `None` of a receive of any tag.
    pub(crate) tag: Option<u32>,
    /// Bytes of all pieces.
    pub(crate) length: u32,
}

/// Where a message's bytes were found last: those behind them are found from there on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor {
    /// The piece, and the descriptor that has it.
    piece: u16,
    index: u16,
    /// Where the piece begins in the message.
    begins: u32,
}

impl Cursor {
    pub(crate) fn new(index: u16) -> Cursor {
        Cursor { piece: 0, index, begins: 0 }
    }
}

impl Array {
    /// What was posted there.
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

    /// Calls `with` for each piece from the cursor on, until it gives false: with a cursor at the piece, its address and its
    /// length.
    fn each_piece(&self, head: u16, from: Cursor, mut with: impl FnMut(Cursor, u64, u32) -> bool) {
        let first = self.first(head);
        let count = (self.get(head, 1) >> 16) as u16;
        let page = self.pages[usize::from(head)].get().filter(|_| first & word::PAGE != 0);
        let mut at = from;
        while at.piece < count {
            let piece = match page {
                // SYNC: behind the acquire of the first word.
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

    /// Calls `with` for the address and the length of each part of `len` bytes from byte `at` of a message on.
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

    /// Tells the host what has come of a send or a receive, and gives the descriptors back.
    pub(crate) fn complete(&self, index: u16, outcome: &Outcome) {
        let kept = self.first(index) & !word::STATE;
        self.set(index, 1, u32::from(outcome.node));
        self.set(index, 2, outcome.tag);
        self.set(index, 3, outcome.length);
        self.publish(index, kept | outcome.status.code());
    }

    /// Whether the station knows a node of that number, or it means any.
    pub(crate) fn is_node(&self, node: Node) -> bool {
        // SYNC: the thread that adds a node is the NIC's owner.
        node == ANY_NODE || u32::from(node) < self.nodes.load(Ordering::Relaxed)
    }
}
