//! What endpoints say to each other, over any transport: the kinds of messages, and what their words mean.
//!
//! `id` is the number by which the sender of a request knows the operation; the answer brings it back in the head's tag.

use crate::memory::{PIECES_MAX, Piece};

/// The low bits of a head's kind.
pub(crate) const KIND: u8 = 0x0f;
/// Data for the completion queue came along.
pub(crate) const WITH_DATA: u8 = 0x10;
/// Of a message: the first word is the id of an operation that ends when the message has been received.
pub(crate) const WITH_ID: u8 = 0x20;
/// Of a read: the initiator cannot reach into the target's memory, so the target sends all.
pub(crate) const PUSH: u8 = 0x20;

/// A message without a tag: its bytes.
pub(crate) const PLAIN: u8 = 1;
/// A message with one.
pub(crate) const TAGGED: u8 = 2;
/// A long message without a tag: id, length, pieces of the sender's memory in which it is.
pub(crate) const PLAIN_LONG: u8 = 3;
/// A long message with one.
pub(crate) const TAGGED_LONG: u8 = 4;
/// The operation of that id has ended; the head's data is an error's number, or 0.
pub(crate) const DONE: u8 = 5;
/// The bytes of the operation of that id are to be sent, as many as the first word says, to the operation whose id is
/// the head's data.
pub(crate) const NEED: u8 = 6;
/// Of the bytes of the operation of that id only so many are wanted, from the first on, as the head's data says: the rest
/// has been copied.
pub(crate) const ENOUGH: u8 = 13;
/// Bytes for the operation of that id; the head's data is how many have been sent before.
pub(crate) const BYTES: u8 = 7;
/// A write to the region whose key is the head's tag: id, address, its bytes.
pub(crate) const WRITE: u8 = 8;
/// A long write: id, address, length, pieces of the initiator's memory.
pub(crate) const WRITE_LONG: u8 = 9;
/// A read of the region whose key is the head's tag: id, address, length.
pub(crate) const READ: u8 = 10;
/// The bytes of the read of that id lie in the target's memory at the address that is the head's data.
pub(crate) const GRANT: u8 = 11;
/// An atomic operation on the region whose key is the head's tag: id, address, what ([`crate::atomic::Code`]), operands.
pub(crate) const ATOMIC: u8 = 12;

/// Words for pieces of memory.
pub(crate) fn put_pieces(
    words: &mut [u64; crate::shm::WORDS_MAX],
    at: usize,
    pieces: impl Iterator<Item = Piece>,
) -> usize {
    let mut end = at;
    for piece in pieces.take(PIECES_MAX) {
        words[end] = piece.address as u64;
        words[end + 1] = piece.len as u64;
        end += 2;
    }
    end
}

/// The pieces of which the words speak that the body has, if they come to `len` bytes.
pub(crate) fn pieces_of(words: &[u64], len: u64) -> Option<Pieces> {
    let mut pieces = Pieces::default();
    let mut sum = 0u64;
    for pair in words.chunks_exact(2).take(PIECES_MAX) {
        pieces.list[pieces.count] =
            Piece { address: usize::try_from(pair[0]).ok()?, len: usize::try_from(pair[1]).ok()? };
        sum = sum.checked_add(pair[1])?;
        pieces.count += 1;
    }
    (sum == len).then_some(pieces)
}

/// Pieces of a peer's memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pieces {
    list: [Piece; PIECES_MAX],
    count: usize,
}

impl Pieces {
    /// Those of `len` bytes from the byte `at` on.
    pub(crate) fn part(mut self, at: usize, len: usize) -> Pieces {
        let (mut skip, mut left) = (at, len);
        for piece in &mut self.list[..self.count] {
            let skipped = skip.min(piece.len);
            skip -= skipped;
            piece.address = piece.address.wrapping_add(skipped);
            piece.len = (piece.len - skipped).min(left);
            left -= piece.len;
        }
        self
    }

    /// The pieces.
    pub(crate) fn as_slice(&self) -> &[Piece] {
        &self.list[..self.count]
    }
}
