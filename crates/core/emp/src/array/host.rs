//! The host's half: posts sends and receives, and asks for their outcomes.

use super::{
    Array, CANCEL, CHAIN_PIECES, DESCRIPTORS, MESSAGE_MAX, Outcome, PAGE_PIECES, PIECE_MAX, RING,
    Status, pack, word,
};
use crate::{ANY_NODE, Node};
use core::sync::atomic::{AtomicU64, Ordering};

/// A contiguous part of a message's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Start address.
    pub address: u64,
    /// Length in bytes.
    pub length: usize,
}

/// A posted send or receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(u32);

impl Handle {
    fn new(index: u16, uses: u16) -> Handle {
        Handle(u32::from(uses) << 16 | u32::from(index))
    }

    /// Returns the handle as a number, for C programs.
    pub fn raw(self) -> u32 {
        self.0
    }

    /// Returns the handle with a number. The first use checks the handle.
    pub fn from_raw(raw: u32) -> Handle {
        Handle(raw)
    }

    /// Returns the descriptor, if the handle still refers to its current use.
    fn index(self, array: &Array) -> Result<u16, Misuse> {
        let (index, uses) = (self.0 as u16, (self.0 >> 16) as u16);
        // SYNC: none needed here. A thread receives the handle after the store, by its own synchronization.
        let now = array.uses.get(usize::from(index)).map(|uses| uses.load(Ordering::Relaxed));
        if now == Some(uses) && uses % 2 == 1 { Ok(index) } else { Err(Misuse) }
    }
}

/// An invalid handle. Its send or receive has already been reported as ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misuse;

/// Reason why nothing was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostError {
    /// Too few descriptors are free (EAGAIN).
    Full,
    /// The message is longer than [`MESSAGE_MAX`], or has more pieces than a page.
    TooLong,
    /// The node does not exist.
    UnknownNode,
    /// An address has more than 48 bits.
    Address,
}

/// The host's half of an [`Array`]. Each array has one host.
#[derive(Debug)]
pub struct Host {
    free: Vec<u16>,
    /// Set for each receive for which the host has already posted a cancellation.
    cancelled: Box<[bool]>,
    posted: u32,
    packed: Vec<u64>,
}

impl Default for Host {
    fn default() -> Host {
        Host::new()
    }
}

impl Host {
    /// Returns the host of a new array.
    pub fn new() -> Host {
        Host {
            free: (0..DESCRIPTORS as u16).rev().collect(),
            cancelled: vec![false; DESCRIPTORS].into(),
            posted: 0,
            packed: Vec::with_capacity(PAGE_PIECES),
        }
    }

    /// Returns the number of free descriptors.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Posts a send of all pieces, one after the other.
    ///
    /// # Errors
    /// Returns a [`PostError`].
    pub fn post_send(
        &mut self,
        array: &Array,
        to: Node,
        tag: u32,
        pieces: &[Piece],
    ) -> Result<Handle, PostError> {
        self.post(array, to, tag, 0, pieces)
    }

    /// Posts a receive into all pieces, one after the other. `None` accepts a message from any node, or with any tag.
    ///
    /// # Errors
    /// Returns a [`PostError`].
    pub fn post_receive(
        &mut self,
        array: &Array,
        from: Option<Node>,
        tag: Option<u32>,
        pieces: &[Piece],
    ) -> Result<Handle, PostError> {
        let any = if tag.is_none() { word::ANY_TAG } else { 0 };
        // The number `ANY_NODE` is not a node's number.
        let from = match from {
            Some(ANY_NODE) => return Err(PostError::UnknownNode),
            from => from.unwrap_or(ANY_NODE),
        };
        self.post(array, from, tag.unwrap_or(0), word::RECEIVE | any, pieces)
    }

    fn post(
        &mut self,
        array: &Array,
        node: Node,
        tag: u32,
        what: u32,
        pieces: &[Piece],
    ) -> Result<Handle, PostError> {
        let is_any = what & word::RECEIVE != 0 && node == ANY_NODE;
        // SYNC: none needed. If the number grows meanwhile, the call fails as if it had come earlier.
        if !is_any && u32::from(node) >= array.nodes.load(Ordering::Relaxed) {
            return Err(PostError::UnknownNode);
        }
        self.pack(pieces)?;
        let count = self.packed.len();
        let is_paged = count > CHAIN_PIECES;
        let needed = if is_paged { 1 } else { 1 + count.saturating_sub(1).div_ceil(2) };
        let Some(rest) = self.free.len().checked_sub(needed) else { return Err(PostError::Full) };
        // The last free descriptor becomes the head. The others follow, up to the end of the list.
        let chain = &self.free[rest..];
        let next_of = |place: usize| chain.get(place + 1).copied().unwrap_or(0);
        let put = |index: u16, at: usize, piece: u64| {
            array.set(index, at, piece as u32);
            array.set(index, at + 1, (piece >> 32) as u32);
        };
        let head = chain[0];
        array.set(head, 1, u32::from(node) | (count as u32) << 16);
        array.set(head, 2, tag);
        if is_paged {
            let page = array.pages[usize::from(head)]
                .get_or_init(|| Box::new([const { AtomicU64::new(0) }; PAGE_PIECES]));
            for (place, &piece) in page.iter().zip(&self.packed) {
                // SYNC: the Release store of the descriptor's first word in `publish` orders this store.
                place.store(piece, Ordering::Relaxed);
            }
        } else {
            put(head, 3, self.packed.first().copied().unwrap_or(0));
            for (place, &index) in chain.iter().enumerate().skip(1) {
                let first = place * 2 - 1;
                put(index, 1, self.packed[first]);
                put(index, 3, self.packed.get(first + 1).copied().unwrap_or(0));
                array.set(index, 0, word::NIC | u32::from(next_of(place)) << word::NEXT);
            }
        }
        let paged = if is_paged { word::PAGE } else { 0 };
        let next = u32::from(next_of(0)) << word::NEXT | (needed as u32 - 1) << word::CHAINED;
        let uses = &array.uses[usize::from(head)];
        // SYNC: only the host changes `uses`. A handle reaches another thread by that thread's own synchronization.
        let use_ = uses.load(Ordering::Relaxed).wrapping_add(1);
        uses.store(use_, Ordering::Relaxed);
        array.publish(head, word::NIC | what | paged | next);
        self.free.truncate(rest);
        self.cancelled[usize::from(head)] = false;
        self.enter(array, head);
        Ok(Handle::new(head, use_))
    }

    /// Packs the pieces into the format of descriptors, and skips empty pieces.
    fn pack(&mut self, pieces: &[Piece]) -> Result<(), PostError> {
        self.packed.clear();
        let mut total = 0usize;
        for piece in pieces {
            total = total.saturating_add(piece.length);
            if total > MESSAGE_MAX {
                return Err(PostError::TooLong);
            }
            let end = piece.address.checked_add(piece.length as u64);
            if end.is_none_or(|end| end > 1 << 48) {
                return Err(PostError::Address);
            }
            for at in (0..piece.length).step_by(PIECE_MAX) {
                if self.packed.len() == PAGE_PIECES {
                    return Err(PostError::TooLong);
                }
                let length = (piece.length - at).min(PIECE_MAX);
                self.packed.push(pack(piece.address + at as u64, length));
            }
        }
        Ok(())
    }

    fn enter(&mut self, array: &Array, entry: u16) {
        let place = self.posted as usize % RING;
        // SYNC: the Release store of `posted` below orders this store.
        array.ring[place].store(entry, Ordering::Relaxed);
        self.posted = self.posted.wrapping_add(1);
        // SYNC: pairs with the Acquire load in `Posts::is_empty`.
        array.posted.store(self.posted, Ordering::Release);
    }

    /// Returns the outcome of a send or receive, or `None` while it is under way. After an outcome the handle is
    /// invalid.
    ///
    /// # Errors
    /// Returns [`Misuse`] if the handle is invalid.
    pub fn test(&mut self, array: &Array, handle: Handle) -> Result<Option<Outcome>, Misuse> {
        let head = handle.index(array)?;
        let first = array.first(head);
        let Some(status) = Status::of_code(first & word::STATE) else { return Ok(None) };
        let outcome = Outcome {
            status,
            node: array.get(head, 1) as Node,
            tag: array.get(head, 2),
            length: array.get(head, 3),
        };
        // An even number of uses means that the descriptor is free.
        let uses = &array.uses[usize::from(head)];
        // SYNC: only the host changes `uses`. A handle reaches another thread by that thread's own synchronization.
        uses.store(uses.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let mut next = first;
        let count = array.chained(first);
        let mut chain = [head; 4];
        for place in &mut chain[1..count] {
            *place = Array::next_of(next);
            next = array.get(*place, 0);
        }
        for &index in chain[..count].iter().rev() {
            array.set(index, 0, word::HOST);
            self.free.push(index);
        }
        Ok(Some(outcome))
    }

    /// Asks the NIC to cancel a receive that has met no message. The receive's outcome says if the NIC did.
    ///
    /// # Errors
    /// Returns [`Misuse`] if no such receive exists.
    pub fn cancel(&mut self, array: &Array, handle: Handle) -> Result<(), Misuse> {
        let head = handle.index(array)?;
        let first = array.first(head);
        if first & word::RECEIVE == 0 {
            return Err(Misuse);
        }
        let asked = &mut self.cancelled[usize::from(head)];
        if first & word::STATE == word::NIC && !core::mem::replace(asked, true) {
            self.enter(array, head | CANCEL);
        }
        Ok(())
    }
}

impl Array {
    /// Returns true while a send or receive is under way. Needs no access to the host's half.
    ///
    /// # Errors
    /// Returns [`Misuse`] if the handle is invalid.
    pub fn is_pending(&self, handle: Handle) -> Result<bool, Misuse> {
        let head = handle.index(self)?;
        Ok(self.first(head) & word::STATE == word::NIC)
    }

    /// Returns the number of descriptors of a message, from the first word of the first descriptor.
    fn chained(&self, first: u32) -> usize {
        (first >> word::CHAINED & 3) as usize + 1
    }
}
