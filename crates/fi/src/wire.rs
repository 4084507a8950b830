//! Messages between endpoints, over any transport: kinds, and the meaning of their words.
//!
//! `id` is the requester's number of the operation. The answer carries `id` in the tag of its head.

use crate::memory::{PIECES_MAX, Piece};

/// Mask of the kind in the low bits of a head's `kind`.
pub(crate) const KIND: u8 = 0x0f;
/// The message carries data for the completion queue.
pub(crate) const WITH_DATA: u8 = 0x10;
/// For a message: the first word is the id of an operation that ends when the message has been received.
pub(crate) const WITH_ID: u8 = 0x20;
/// For a read: the initiator cannot read the target's memory, so the target sends all bytes.
pub(crate) const PUSH: u8 = 0x20;

/// A message without a tag. Contents: the bytes.
pub(crate) const PLAIN: u8 = 1;
/// A message with a tag.
pub(crate) const TAGGED: u8 = 2;
/// A long message without a tag. Contents: id, length, pieces of the sender's memory.
pub(crate) const PLAIN_LONG: u8 = 3;
/// A long message with a tag.
pub(crate) const TAGGED_LONG: u8 = 4;
/// Ends operation `id`. The head's data is an error number, or 0.
pub(crate) const DONE: u8 = 5;
/// Requests the bytes of operation `id`. The first word is their number. The head's data is the id of the requester's
/// operation, to which the bytes go. Between hosts the second word is EMP's tag for the bytes. The third word is the
/// end of the bytes for which receives are posted.
pub(crate) const NEED: u8 = 6;
/// Limits the bytes of operation `id` to the first ones, as many as the head's data says. The receiver has copied the
/// rest.
pub(crate) const ENOUGH: u8 = 13;
/// Bytes for operation `id`. The head's data is the number of bytes sent before.
pub(crate) const BYTES: u8 = 7;
/// A write to the region whose key is the head's tag. Contents: id, address, bytes.
pub(crate) const WRITE: u8 = 8;
/// A long write. Contents: id, address, length, pieces of the initiator's memory.
pub(crate) const WRITE_LONG: u8 = 9;
/// A read of the region whose key is the head's tag. Contents: id, address, length.
pub(crate) const READ: u8 = 10;
/// Answers read `id`. The bytes lie in the target's memory at the address in the head's data.
pub(crate) const GRANT: u8 = 11;
/// An atomic operation on the region whose key is the head's tag. Contents: id, address, operation
/// ([`crate::atomic::Code`]), operands.
pub(crate) const ATOMIC: u8 = 12;

/// Between hosts, the first message. Contents: the sender's address, the receiver's address.
pub(crate) const HELLO: u8 = 14;
/// Between hosts, the last message. The sender has closed its endpoint, or has given up the receiver.
pub(crate) const BYE: u8 = 15;

/// Writes pieces of memory into `words` from `at` on, and returns the end of the written words.
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

/// Reads pieces of memory from words; `None` if their lengths do not add up to `len`.
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
    /// Returns the pieces of `len` bytes from byte `at` on.
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

    /// Returns the pieces as a slice.
    pub(crate) fn as_slice(&self) -> &[Piece] {
        &self.list[..self.count]
    }
}
