//! Size of an item on the network.

use crate::wire::{HEADER, Item, Payload};

/// An outgoing item with a size on the network.
pub trait Load {
    /// Number of bytes of the frame that carries the item.
    fn bytes(&self) -> u32;
}

impl<B: Payload> Load for Item<B> {
    fn bytes(&self) -> u32 {
        u32::try_from(HEADER + 12 + self.size()).unwrap_or(u32::MAX)
    }
}
