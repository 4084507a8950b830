//! How much of a network an item takes.

use crate::wire::{HEADER, Item, Payload};

/// What is sent over a network: it has a size there.
pub trait Load {
    /// Bytes of the frame that carries it.
    fn bytes(&self) -> u32;
}

impl<B: Payload> Load for Item<B> {
    fn bytes(&self) -> u32 {
        u32::try_from(HEADER + 12 + self.size()).unwrap_or(u32::MAX)
    }
}
