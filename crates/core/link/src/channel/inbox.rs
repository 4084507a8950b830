//! Messages that have come and have not been taken.

use crate::message::Assembly;
use crate::wire::{Closing, Item, Operation, Payload};
use std::collections::VecDeque;

/// Buffers that are kept, and how long each of them may be.
const SPARE: usize = 4;
const SPARE_MAX: usize = 128 << 10;

/// What a channel's end receives.
pub(super) type Received = Item<Vec<u8>>;

/// Whole messages in order, and the one that is coming.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Bytes of whole messages from which on no more are taken.
    room: usize,
    bytes: usize,
    whole: VecDeque<Vec<u8>>,
    /// Buffers of messages that have been taken.
    spare: Vec<Vec<u8>>,
    assembly: Assembly,
}

impl Inbox {
    pub(super) fn new(longest: u32, room: usize) -> Inbox {
        let (whole, assembly) = (VecDeque::new(), Assembly::new(longest));
        Inbox { room, bytes: 0, whole, spare: Vec::new(), assembly }
    }

    /// Whole messages.
    pub(super) fn len(&self) -> usize {
        self.whole.len()
    }

    /// Whether something more is taken now.
    pub(super) fn has_room(&self) -> bool {
        // Empty messages cost something too.
        self.bytes + self.whole.len() < self.room.max(1)
    }

    /// Whether an item may be the next one of a channel's stream.
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

    /// The next item, which fits; whether there is a whole message more.
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

    /// Puts the next whole message into `out`, whose buffer is used again; false if there is none.
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
