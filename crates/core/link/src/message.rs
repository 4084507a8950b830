//! Splits messages into parts and reassembles them.

use crate::wire::{Operation, Part, Payload};
use core::ops::Range;

/// Bytes of a message that can be split into pieces.
pub trait Divisible: Sized {
    /// The bytes of one part.
    type Piece;

    /// Number of bytes.
    fn count(&self) -> usize;

    /// Returns the bytes in `range`.
    fn piece(&self, range: Range<usize>) -> Self::Piece;

    /// Returns the bytes in the last range that the caller asks for.
    fn last_piece(self, range: Range<usize>) -> Self::Piece;
}

/// Length of each part of a message of `len` bytes, at most `mtu`. Uses the fewest parts possible and makes them nearly
/// equal, because the network joins frames of one length.
pub fn even(len: usize, mtu: usize) -> usize {
    let count = len.div_ceil(mtu.max(1)).max(1);
    len.div_ceil(count).max(1)
}

/// Splits a message into parts of up to `mtu` bytes. An empty message has one part. A message must be shorter than 4
/// GB.
pub fn parts<M: Divisible>(
    operation: Operation,
    immediate: Option<u32>,
    message: M,
    mtu: usize,
) -> impl Iterator<Item = Part<M::Piece>> {
    let (len, mtu) = (message.count(), mtu.max(1));
    let (mut rest, mut start) = (Some(message), 0);
    core::iter::from_fn(move || {
        let end = len.min(start + mtu);
        let bytes = match rest.take()? {
            last if end == len => last.last_piece(start..end),
            message => {
                let piece = message.piece(start..end);
                rest = Some(message);
                piece
            }
        };
        let begins = core::mem::replace(&mut start, end) as u32;
        Some(Part { operation, immediate, total: len as u32, start: begins, bytes })
    })
}

/// A complete message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Operation that the receiver performs with the message.
    pub operation: Operation,
    /// The message's immediate data.
    pub immediate: Option<u32>,
    /// The message's bytes.
    pub bytes: Vec<u8>,
}

/// Reassembles parts that come in order.
#[derive(Debug)]
pub struct Assembly {
    /// Bytes of the longest message.
    longest: u32,
    bytes: Vec<u8>,
    /// Fields that all parts of the current message share; `None` between messages.
    begun: Option<(Operation, Option<u32>, u32)>,
}

impl Assembly {
    /// Accepts messages of up to `longest` bytes.
    pub fn new(longest: u32) -> Assembly {
        Assembly { longest, bytes: Vec::new(), begun: None }
    }

    /// Uses `buffer` for the next message. Call it only between messages.
    pub(crate) fn reuse(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.bytes = buffer;
    }

    /// Returns true if no message has begun.
    pub fn is_empty(&self) -> bool {
        self.begun.is_none()
    }

    /// Returns true if a part can be the next one.
    pub fn fits<B: Payload + AsRef<[u8]>>(&self, part: &Part<B>) -> bool {
        let of = (part.operation, part.immediate, part.total);
        part.total <= self.longest
            && !part.is_announcement()
            && part.start as usize == self.bytes.len()
            && self.begun.is_none_or(|begun| begun == of)
    }

    /// Adds the next part. Returns the message if this was its last part. Drops a part that does not fit.
    pub fn add<B: Payload + AsRef<[u8]>>(&mut self, part: &Part<B>) -> Option<Message> {
        if !self.fits(part) {
            return None;
        }
        let Part { operation, immediate, total, .. } = *part;
        if self.begun.is_none() {
            self.begun = Some((operation, immediate, total));
            // `total` is at most `longest`, and the kernel provides no page before its bytes arrive.
            self.bytes.reserve_exact(total as usize);
        }
        self.bytes.extend_from_slice(part.bytes.as_ref());
        part.is_last().then(|| {
            self.begun = None;
            Message { operation, immediate, bytes: core::mem::take(&mut self.bytes) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Whole;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn even_parts_are_no_more_than_there_must_be(len in 0usize..100_000, mtu in 1usize..70_000) {
            let part = even(len, mtu);
            prop_assert!(part <= mtu && len.div_ceil(part) <= len.div_ceil(mtu));
            let short = len.div_ceil(part) * part - len;
            prop_assert!(short < len.div_ceil(mtu).max(1));
        }

        #[test]
        fn parts_make_the_message_again(message: Vec<u8>, mtu in 1usize..50) {
            let mut assembly = Assembly::new(10_000);
            let all: Vec<_> = parts(Operation::Send, Some(7), Whole::from(message.clone()), mtu).collect();
            prop_assert!(all.iter().all(|part| part.bytes.as_ref().len() <= mtu));
            let last = all.len() - 1;
            for (i, part) in all.iter().enumerate() {
                let whole = assembly.add(part);
                let (operation, bytes) = (Operation::Send, message.clone());
                let expected = Message { operation, immediate: Some(7), bytes };
                prop_assert_eq!(whole, (i == last).then_some(expected));
            }
        }
    }
}
