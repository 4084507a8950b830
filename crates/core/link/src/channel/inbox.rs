//! Arrived messages that the program has not taken.

use crate::message::Assembly;
use crate::wire::{Closing, Item, Operation, Payload};
use std::collections::VecDeque;

/// Number of spare buffers, and the length of the longest spare buffer.
const SPARE: usize = 4;
const SPARE_MAX: usize = 128 << 10;

/// An item that a channel receives.
pub(super) type Received = Item<Vec<u8>>;

/// Complete messages in order, and the incomplete last message.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Bytes of complete messages from which no more items are accepted.
    room: usize,
    bytes: usize,
    whole: VecDeque<Vec<u8>>,
    /// Buffers of messages that the program has taken.
    spare: Vec<Vec<u8>>,
    assembly: Assembly,
}

impl Inbox {
    pub(super) fn new(longest: u32, room: usize) -> Inbox {
        let (whole, assembly) = (VecDeque::new(), Assembly::new(longest));
        Inbox { room, bytes: 0, whole, spare: Vec::new(), assembly }
    }

    /// Number of complete messages.
    pub(super) fn len(&self) -> usize {
        self.whole.len()
    }

    /// Returns true if another item is accepted now.
    pub(super) fn has_room(&self) -> bool {
        // Count each message as one byte more, so that empty messages are limited too.
        self.bytes + self.whole.len() < self.room.max(1)
    }

    /// Returns true if an item may be the next one of a channel's stream.
    pub(super) fn fits<B: Payload + AsRef<[u8]>>(&self, item: &Item<B>) -> bool {
        match item {
            Item::Part(part) => {
                part.operation == Operation::Send
                    && part.immediate.is_none()
                    && self.assembly.fits(part)
            }
            Item::Close(closing) => *closing == Closing::Disconnected && self.assembly.is_empty(),
            Item::Read { .. } => false,
        }
    }

    /// Adds the next item, which must fit. Returns true if the item completes a message.
    pub(super) fn add<B: Payload + AsRef<[u8]>>(&mut self, item: &Item<B>) -> bool {
        let Item::Part(part) = item else { return false };
        if self.assembly.is_empty()
            && let Some(buffer) = self.spare.pop()
        {
            self.assembly.reuse(buffer);
        }
        let Some(message) = self.assembly.add(part) else { return false };
        self.bytes += message.bytes.len();
        self.whole.push_back(message.bytes);
        true
    }

    /// Moves the next complete message into `out`, and keeps the old buffer for reuse. Returns false if there is no
    /// message.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(message) = self.whole.pop_front() else { return false };
        self.bytes -= message.len();
        let buffer = core::mem::replace(out, message);
        if self.spare.len() < SPARE && buffer.capacity() <= SPARE_MAX {
            self.spare.push(buffer);
        }
        true
    }
}
