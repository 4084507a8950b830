//! Messages that have come and have not been taken.

use crate::message::Assembly;
use crate::wire::{Closing, Item, Operation};
use std::collections::VecDeque;

/// What a channel's end receives.
pub(super) type Received = Item<Vec<u8>>;

/// Whole messages in order, and the one that is coming.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Bytes of whole messages from which on no more are taken.
    room: usize,
    bytes: usize,
    whole: VecDeque<Vec<u8>>,
    assembly: Assembly,
}

impl Inbox {
    pub(super) fn new(longest: u32, room: usize) -> Inbox {
        let (whole, assembly) = (VecDeque::new(), Assembly::new(longest));
        Inbox { room, bytes: 0, whole, assembly }
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
    pub(super) fn fits(&self, item: &Received) -> bool {
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
    pub(super) fn add(&mut self, item: &Received) -> bool {
        let Item::Part(part) = item else { return false };
        let Some(message) = self.assembly.add(part) else { return false };
        self.bytes += message.bytes.len();
        self.whole.push_back(message.bytes);
        true
    }

    /// The next whole message.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        let message = self.whole.pop_front()?;
        self.bytes -= message.len();
        Some(message)
    }
}
