//! A node's network card.

use core::time::Duration;
use sovia_link::Time;
use std::collections::VecDeque;

/// Longest time that frames in a card's ring take to leave the ring. Further frames wait in their streams.
pub(super) const RING: Duration = Duration::from_micros(20);

/// A node.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Ends that may have frames to send, in turn.
    pub(super) ready: VecDeque<u32>,
    /// Time when the card checks again for room in its ring.
    pub(super) looks_at: Option<Time>,
    /// Size of all ends' own state in bytes, at present and at most.
    pub(super) bytes: u64,
    pub(super) most_bytes: u64,
}
