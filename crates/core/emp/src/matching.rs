//! Receives in the order of their posts, and messages that found no receive.

use crate::{ANY_NODE, Node};

/// A receive that waits for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) index: u16,
    /// The source; [`ANY_NODE`] for any.
    pub(crate) node: Node,
    /// The tag; `None` for any.
    pub(crate) tag: Option<u32>,
    /// Maximum number of bytes of a message for this receive.
    pub(crate) room: u32,
}

impl Waiting {
    fn takes(&self, node: Node, tag: u32) -> bool {
        (self.node == ANY_NODE || self.node == node) && self.tag.is_none_or(|own| own == tag)
    }
}

/// A node and tag of dropped messages: the NIC dropped the first frame of at least one message. When a receive is
/// posted, the NIC notifies the sender. If the NIC has forgotten the entry, the sender tries again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) node: Node,
    pub(crate) tag: u32,
}

/// Maximum number of entries for dropped messages.
const REMEMBERED: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Matching {
    /// Receives in the order of their posts.
    receives: Vec<Waiting>,
    /// Entries in the order of arrival.
    dropped: Vec<Dropped>,
}

impl Matching {
    /// Adds a receive after the others. Returns the entry of dropped messages that this receive takes and the sender
    /// must repeat.
    pub(crate) fn post(&mut self, receive: Waiting) -> Option<Dropped> {
        self.receives.push(receive);
        let place = self.dropped.iter().position(|it| receive.takes(it.node, it.tag))?;
        Some(self.dropped.remove(place))
    }

    /// Returns the first receive that takes a message, without removing the receive.
    pub(crate) fn find(&self, node: Node, tag: u32) -> Option<Waiting> {
        self.receives.iter().find(|receive| receive.takes(node, tag)).copied()
    }

    /// Removes a receive. Returns true if it was there.
    pub(crate) fn take(&mut self, index: u16) -> bool {
        let place = self.receives.iter().position(|receive| receive.index == index);
        place.map(|place| self.receives.remove(place)).is_some()
    }

    pub(crate) fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Remembers the sender and tag of a message that found no receive.
    pub(crate) fn remember(&mut self, dropped: Dropped) {
        if self.dropped.len() < REMEMBERED && !self.dropped.contains(&dropped) {
            self.dropped.push(dropped);
        }
    }

    /// Forgets an entry after one of its messages has met a receive. The sender then tries its next messages by itself.
    pub(crate) fn forget(&mut self, found: Dropped) {
        self.dropped.retain(|dropped| *dropped != found);
    }

    /// Forgets all entries of a node.
    pub(crate) fn forget_all(&mut self, node: Node) {
        self.dropped.retain(|dropped| dropped.node != node);
    }

    /// Removes and returns all receives.
    pub(crate) fn close(&mut self) -> Vec<Waiting> {
        self.dropped.clear();
        core::mem::take(&mut self.receives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(index: u16, node: Node, tag: Option<u32>) -> Waiting {
        Waiting { index, node, tag, room: 0 }
    }

    #[test]
    fn the_receive_that_was_posted_first_takes_a_message() {
        let mut matching = Matching::default();
        for waiting in [
            receive(9, 1, Some(7)),
            receive(3, ANY_NODE, Some(7)),
            receive(5, 1, None),
            receive(1, 1, Some(7)),
        ] {
            assert_eq!(matching.post(waiting), None);
        }
        let mut take = |node, tag| {
            let found = matching.find(node, tag).map(|receive| receive.index);
            found.inspect(|&index| assert!(matching.take(index)))
        };
        assert_eq!(take(2, 8), None);
        assert_eq!(take(2, 7), Some(3));
        assert_eq!(take(1, 7), Some(9));
        assert_eq!(take(1, 8), Some(5));
        assert_eq!(take(1, 7), Some(1));
        assert_eq!(take(1, 7), None);
    }

    #[test]
    fn first_matching_receive_calls_a_dropped_message() {
        let mut matching = Matching::default();
        let (first, second) = (Dropped { node: 1, tag: 7 }, Dropped { node: 2, tag: 7 });
        matching.remember(first);
        matching.remember(first);
        matching.remember(second);
        assert_eq!(matching.post(receive(0, ANY_NODE, Some(8))), None);
        assert_eq!(matching.post(receive(1, 2, None)), Some(second));
        assert_eq!(matching.post(receive(2, ANY_NODE, None)), Some(first));
        assert_eq!(matching.post(receive(3, ANY_NODE, None)), None);
    }
}
