//! The state of messages under way. Each descriptor can begin one message.

use crate::Node;
use crate::array::Cursor;
use crate::wire::Message;
use sovia_link::Time;

/// Maximum number of collections of a message that may be under way at the same time.
pub(crate) const WINDOW: u32 = 128;

/// A message to a peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    pub(crate) peer: Node,
    pub(crate) id: u32,
    /// The fields of the first frame, except `after`.
    pub(crate) message: Message,
    /// The first collection that was never sent.
    pub(crate) next: u32,
    /// Number of acknowledged collections.
    pub(crate) acknowledged: u32,
    /// The peer has reported that all collections before this one arrived.
    pub(crate) below: u32,
    /// Set once a frame of the message has been sent.
    pub(crate) is_sent: bool,
    /// Set once the peer has found a receive for the message.
    pub(crate) is_matched: bool,
    /// Until this time the message waits for a receive.
    pub(crate) parked: Option<Time>,
    /// Number of times that the message has waited.
    pub(crate) parks: u32,
    pub(crate) cursor: Cursor,
}

impl Outgoing {
    pub(crate) fn collections(&self) -> u32 {
        collections(&self.message)
    }

    /// Returns the first frame of a collection, and the frame after the last.
    pub(crate) fn frames_of(&self, collection: u32) -> (u32, u32) {
        let each = u32::from(self.message.collection);
        let first = collection * each;
        (first, self.message.frames.min(first.saturating_add(each)))
    }

    /// Returns true if another collection may be sent. Without a known receive, only the window may be sent.
    pub(crate) fn may_go_on(&self) -> bool {
        self.parked.is_none() && self.next < self.collections() && self.next - self.below < WINDOW
    }
}

pub(crate) fn collections(message: &Message) -> u32 {
    message.frames.div_ceil(u32::from(message.collection.max(1)))
}

/// A message from a peer, with the receive that it has met.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming {
    pub(crate) peer: Node,
    pub(crate) id: u32,
    pub(crate) message: Message,
    /// All collections before this one have arrived.
    below: u32,
    /// Frames that have arrived, one bit each, for the collections from `below` on.
    came: [u8; WINDOW as usize],
    pub(crate) cursor: Cursor,
}

/// Position of a frame in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The frame is new.
    New,
    /// The frame has arrived before.
    Again,
    /// The message has no such frame, or the frame is too far ahead.
    Nowhere,
}

impl Incoming {
    pub(crate) fn new(peer: Node, id: u32, message: Message, index: u16) -> Incoming {
        let came = [0; WINDOW as usize];
        Incoming { peer, id, message, below: 0, came, cursor: Cursor::new(index) }
    }

    pub(crate) fn below(&self) -> u32 {
        self.below
    }

    fn collection_of(&self, number: u32) -> (u32, u8) {
        let each = u32::from(self.message.collection);
        (number / each, 1 << (number % each))
    }

    fn slot(&mut self, collection: u32) -> &mut u8 {
        &mut self.came[(collection % WINDOW) as usize]
    }

    /// Returns the bits of all frames of a collection.
    fn all_of(&self, collection: u32) -> u8 {
        let each = u32::from(self.message.collection);
        let frames = (self.message.frames - collection * each).min(each);
        ((1u16 << frames) - 1) as u8
    }

    pub(crate) fn place_of(&mut self, number: u32) -> Place {
        let (collection, bit) = self.collection_of(number);
        if number >= self.message.frames || collection >= self.below.saturating_add(WINDOW) {
            Place::Nowhere
        } else if collection < self.below || *self.slot(collection) & bit != 0 {
            Place::Again
        } else {
            Place::New
        }
    }

    /// Records a new frame whose bytes have been copied. Returns true if its collection is now complete.
    pub(crate) fn came(&mut self, number: u32) -> bool {
        let (collection, bit) = self.collection_of(number);
        *self.slot(collection) |= bit;
        let is_whole = self.has(collection);
        while self.below < collections(&self.message) && self.has(self.below) {
            *self.slot(self.below) = 0;
            self.below += 1;
        }
        is_whole
    }

    fn has(&mut self, collection: u32) -> bool {
        *self.slot(collection) == self.all_of(collection)
    }

    /// Returns true if the collection of a repeated frame is complete.
    pub(crate) fn is_whole_at(&mut self, number: u32) -> bool {
        let (collection, _) = self.collection_of(number);
        collection < self.below || self.has(collection)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.below == collections(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(frames: u32, collection: u8) -> Message {
        Message { total: frames * 10, frames, size: 10, after: 0, tag: 0, collection }
    }

    proptest! {
        #[test]
        fn frames_in_any_order_make_a_message_whole_once(
            frames in 1u32..200,
            collection in 1u8..=8,
            seed: u64,
        ) {
            let mut incoming = Incoming::new(0, 0, message(frames, collection), 0);
            let mut order: Vec<u32> = (0..frames).chain(0..frames).collect();
            let mut state = seed | 1;
            for place in (1..order.len()).rev() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                order.swap(place, (state >> 33) as usize % (place + 1));
            }
            let (mut new, mut whole) = (0, 0);
            for number in order {
                match incoming.place_of(number) {
                    Place::New => {
                        new += 1;
                        whole += u32::from(incoming.came(number));
                    }
                    Place::Again => {}
                    Place::Nowhere => prop_assert!(frames > WINDOW),
                }
                if new == frames {
                    prop_assert!(incoming.is_complete());
                }
            }
            prop_assert_eq!(incoming.place_of(frames), Place::Nowhere);
            if new == frames {
                prop_assert_eq!(whole, frames.div_ceil(u32::from(collection)));
            }
        }
    }
}
