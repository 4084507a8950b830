//! A node's network card.

use core::time::Duration;
use sovia_link::Time;
use std::collections::VecDeque;

/// How long the frames in a card's ring may take to leave it: what is longer waits in its stream.
pub(super) const RING: Duration = Duration::from_micros(20);

/// A node.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Ends that may have something to send, in turn.
    pub(super) ready: VecDeque<u32>,
    /// When the card looks again whether there is room in its ring.
    pub(super) looks_at: Option<Time>,
    /// Bytes of all ends' own state, by now and at most.
    pub(super) bytes: u64,
    pub(super) most_bytes: u64,
}
