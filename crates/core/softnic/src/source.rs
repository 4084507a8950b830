//! Bytes of messages that are sent.
//!
//! They stay in the program's memory until a frame with them is written, and for as long as it may have to be written again: a
//! descriptor is not done before the other end has all of it, and its memory is the NIC's until then. Where the program gets
//! its memory back before that, because the connection is over for it or the memory is deregistered, a copy takes their place.

use core::ops::Range;
use sovia_link::buffers::{Chunk, Whole};
use sovia_link::message::Divisible;
use sovia_link::wire::{Payload, Readable};
use via::{DataSegment, Memory};

/// Bytes that a frame is to carry.
#[derive(Debug)]
pub(crate) enum Source {
    /// A copy of them.
    Copied(Chunk),
    /// Where they are. The VI may use the region, until [`Source::Copied`] takes its place.
    Lent(DataSegment),
}

/// A message that is to be sent.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A copy of it.
    Copied(Whole),
    /// Where it is.
    Lent(DataSegment),
}

/// Bytes that a frame is written with.
#[derive(Debug)]
pub(crate) enum View<'a> {
    Copied(&'a Chunk),
    /// So many bytes of memory, from there on.
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
