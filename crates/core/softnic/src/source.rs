//! Outgoing bytes of messages.
//!
//! The bytes stay in the program's memory until the peer has acknowledged them, because frames with them may have to be
//! written again. Until then the descriptor is not done, so the memory belongs to the NIC. The program gets its memory
//! back earlier when it closes the connection or deregisters the memory. Then a copy replaces the bytes.

use core::ops::Range;
use sovia_link::buffers::{Chunk, Whole};
use sovia_link::message::Divisible;
use sovia_link::wire::{Payload, Readable};
use via::{DataSegment, Memory};

/// Bytes for a frame.
#[derive(Debug)]
pub(crate) enum Source {
    /// A copy.
    Copied(Chunk),
    /// Bytes in memory that the VI may use, until a copy replaces them.
    Lent(DataSegment),
}

/// An outgoing message.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A copy.
    Copied(Whole),
    /// The message in memory that the VI may use.
    Lent(DataSegment),
}

/// Bytes from which a frame is written.
#[derive(Debug)]
pub(crate) enum View<'a> {
    Copied(&'a Chunk),
    /// A range of memory: its start and its length.
    Lent(&'a Memory, usize, usize),
}

fn within(segment: &DataSegment, range: Range<usize>) -> DataSegment {
    let address = segment.address + range.start as u64;
    DataSegment { address, length: range.len() as u32, ..*segment }
}

impl Payload for Source {
    fn count(&self) -> usize {
        match self {
            Source::Copied(chunk) => chunk.count(),
            Source::Lent(segment) => segment.length as usize,
        }
    }
}

impl Divisible for Outgoing {
    type Piece = Source;

    fn count(&self) -> usize {
        match self {
            Outgoing::Copied(whole) => whole.count(),
            Outgoing::Lent(segment) => segment.length as usize,
        }
    }

    fn piece(&self, range: Range<usize>) -> Source {
        match self {
            Outgoing::Copied(whole) => Source::Copied(whole.piece(range)),
            Outgoing::Lent(segment) => Source::Lent(within(segment, range)),
        }
    }

    fn last_piece(self, range: Range<usize>) -> Source {
        match self {
            Outgoing::Copied(whole) => Source::Copied(whole.last_piece(range)),
            Outgoing::Lent(segment) => Source::Lent(within(&segment, range)),
        }
    }
}

impl Payload for View<'_> {
    fn count(&self) -> usize {
        match self {
            View::Copied(chunk) => chunk.count(),
            View::Lent(_, _, len) => *len,
        }
    }
}

impl Readable for View<'_> {
    fn write_to(&self, room: &mut [u8]) {
        match self {
            View::Copied(chunk) => chunk.write_to(room),
            View::Lent(memory, at, _) => {
                let is_within = memory.read(*at, room);
                debug_assert!(is_within, "bytes outside of their region");
            }
        }
    }
}
