//! The host's half: posting, and asking what has come of it.

use super::{
    Array, CANCEL, CHAIN_PIECES, DESCRIPTORS, MESSAGE_MAX, Outcome, PAGE_PIECES, PIECE_MAX, RING,
    Status, pack, word,
};
use crate::{ANY_NODE, Node};
use core::sync::atomic::{AtomicU64, Ordering};

/// Memory of a message, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub address: u64,
    /// Bytes.
    pub length: usize,
}

/// A send or a receive that has been posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(u32);

impl Handle {
    fn new(index: u16, uses: u16) -> Handle {
        Handle(u32::from(uses) << 16 | u32::from(index))
    }

    /// The handle as a number, for programs in C.
    pub fn raw(self) -> u32 {
        self.0
    }

    /// The handle of that number. Whether it is one shows when it is used.
    pub fn from_raw(raw: u32) -> Handle {
        Handle(raw)
    }

    /// The descriptor, if it is still the one that was meant.
    fn index(self, array: &Array) -> Result<u16, Misuse> {
        let (index, uses) = (self.0 as u16, (self.0 >> 16) as u16);
        // SYNC: the thread that has the handle got it behind the store.
        let now = array.uses.get(usize::from(index)).map(|uses| uses.load(Ordering::Relaxed));
        if now == Some(uses) && uses % 2 == 1 { Ok(index) } else { Err(Misuse) }
    }
}

/// A handle that names nothing: what it named has been told as ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misuse;

/// Why nothing was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostError {
    /// Too few descriptors are free: EAGAIN.
    Full,
    /// The message is longer than [`MESSAGE_MAX`], or in more pieces than a page has.
    TooLong,
    /// There is no such node.
    UnknownNode,
    /// An address of more than 48 bits.
    Address,
}

/// The host's half of an [`Array`]: there is one.
#[derive(Debug)]
pub struct Host {
    free: Vec<u16>,
    /// Receives that are to be cancelled.
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
    /// The host of a new array.
    pub fn new() -> Host {
        Host {
            free: (0..DESCRIPTORS as u16).rev().collect(),
            cancelled: vec![false; DESCRIPTORS].into(),
            posted: 0,
            packed: Vec::with_capacity(PAGE_PIECES),
        }
    }

    /// Descriptors that are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Posts a send of the bytes of all pieces, one behind the other.
    ///
    /// # Errors
    /// [`PostError`].
    pub fn post_send(
        &mut self,
        array: &Array,
        to: Node,
        tag: u32,
        pieces: &[Piece],
    ) -> Result<Handle, PostError> {
        self.post(array, to, tag, 0, pieces)
    }

    /// Posts a receive into all pieces, one behind the other, of a message from that node (or from any) with that tag (or with
    /// any).
    ///
    /// # Errors
    /// [`PostError`].
    pub fn post_receive(
        &mut self,
        array: &Array,
        from: Option<Node>,
        tag: Option<u32>,
        pieces: &[Piece],
    ) -> Result<Handle, PostError> {
        let any = if tag.is_none() { word::ANY_TAG } else { 0 };
        // A node of that number there is not.
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
        // SYNC: a number that has grown meanwhile is refused, as if this call had come before.
        if !is_any && u32::from(node) >= array.nodes.load(Ordering::Relaxed) {
            return Err(PostError::UnknownNode);
        }
        self.pack(pieces)?;
        let count = self.packed.len();
        let is_paged = count > CHAIN_PIECES;
        let needed = if is_paged { 1 } else { 1 + count.saturating_sub(1).div_ceil(2) };
        let Some(rest) = self.free.len().checked_sub(needed) else { return Err(PostError::Full) };
        // The last one is the head, and the others follow it from the end of the list on.
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
                // SYNC: the descriptor's first word orders them.
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
        // SYNC: the host's alone to change; a handle reaches another thread by that thread's means.
        let use_ = uses.load(Ordering::Relaxed).wrapping_add(1);
        uses.store(use_, Ordering::Relaxed);
        array.publish(head, word::NIC | what | paged | next);
        self.free.truncate(rest);
        self.cancelled[usize::from(head)] = false;
        self.enter(array, head);
        Ok(Handle::new(head, use_))
    }

    /// The pieces as descriptors have them, without empty ones.
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
        // SYNC: the store of `posted` orders it.
        array.ring[place].store(entry, Ordering::Relaxed);
        self.posted = self.posted.wrapping_add(1);
        // SYNC: with the acquire of `Posts::next`.
        array.posted.store(self.posted, Ordering::Release);
    }

    /// What has come of a send or a receive; `None` while it is under way. Once it has told, the handle names nothing any more.
    ///
    /// # Errors
    /// [`Misuse`].
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
        // Even: free.
        let uses = &array.uses[usize::from(head)];
        // SYNC: as in `post`.
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

    /// Asks the NIC to give a receive up that has met no message. Whether it did is what the receive ends in.
    ///
    /// # Errors
    /// [`Misuse`]: there is no such receive.
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
    /// Whether a send or a receive is under way, without the host's half.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn is_pending(&self, handle: Handle) -> Result<bool, Misuse> {
        let head = handle.index(self)?;
        Ok(self.first(head) & word::STATE == word::NIC)
    }

    /// Descriptors of the message whose first one has that first word.
    fn chained(&self, first: u32) -> usize {
        (first >> word::CHAINED & 3) as usize + 1
    }
}
