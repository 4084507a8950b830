//! Receives in the order in which they were posted, and messages that have found none.

use crate::{ANY_NODE, Node};

/// A receive that waits for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) index: u16,
    /// [`ANY_NODE`]: from any.
    pub(crate) node: Node,
    /// `None`: any.
    pub(crate) tag: Option<u32>,
    /// Bytes of the longest message that it takes.
    pub(crate) room: u32,
}

impl Waiting {
    fn takes(&self, node: Node, tag: u32) -> bool {
        (self.node == ANY_NODE || self.node == node) && self.tag.is_none_or(|own| own == tag)
    }
}

/// Messages of a node with a tag, the first frame of one of which was dropped. Their sender will hear of a receive for them, unless they
/// are forgotten: then it tries again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) node: Node,
    pub(crate) tag: u32,
}

/// Nodes and tags that are remembered.
const REMEMBERED: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Matching {
    /// In the order of their posts.
    receives: Vec<Waiting>,
    /// In the order in which they came.
    dropped: Vec<Dropped>,
}

impl Matching {
    /// Another receive, behind the others; whose messages have come for it before, and are to come again.
    pub(crate) fn post(&mut self, receive: Waiting) -> Option<Dropped> {
        self.receives.push(receive);
        let place = self.dropped.iter().position(|it| receive.takes(it.node, it.tag))?;
        Some(self.dropped.remove(place))
    }

    /// The first receive that takes a message, without taking it.
    pub(crate) fn find(&self, node: Node, tag: u32) -> Option<Waiting> {
        self.receives.iter().find(|receive| receive.takes(node, tag)).copied()
    }

    /// Takes a receive away; whether it was there.
    pub(crate) fn take(&mut self, index: u16) -> bool {
        let place = self.receives.iter().position(|receive| receive.index == index);
        place.map(|place| self.receives.remove(place)).is_some()
    }

    pub(crate) fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Remembers whose message has found no receive.
    pub(crate) fn remember(&mut self, dropped: Dropped) {
        if self.dropped.len() < REMEMBERED && !self.dropped.contains(&dropped) {
            self.dropped.push(dropped);
        }
    }

    /// A message has found a receive: its sender tries the next ones by itself.
    pub(crate) fn forget(&mut self, found: Dropped) {
        self.dropped.retain(|dropped| *dropped != found);
    }

    /// Forgets all messages of a node.
    pub(crate) fn forget_all(&mut self, node: Node) {
        self.dropped.retain(|dropped| dropped.node != node);
    }

    /// Takes all receives away.
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
    fn a_dropped_message_is_called_by_the_first_receive_that_takes_it() {
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
