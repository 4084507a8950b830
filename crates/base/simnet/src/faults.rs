//! Partitions of the network, and changes of the network.

use crate::fabric::Part;
use crate::link::Link;
use crate::node::NodeId;
use std::collections::BTreeSet;

/// A change of the network.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The two nodes cannot reach each other any more. Packets in flight between them are lost.
    Sever(NodeId, NodeId),
    /// Reverts a [`Change::Sever`] of the two nodes.
    Mend(NodeId, NodeId),
    /// The given nodes can reach only each other, and no other node can reach them.
    Partition(BTreeSet<NodeId>),
    /// Reverts every [`Change::Sever`] and [`Change::Partition`].
    Heal,
    /// The link from the first node to the second behaves differently from now on.
    Link(NodeId, NodeId, Link),
    /// A part of the fabric fails. Packets in its queues and on its cables are lost. Without a fabric this has no
    /// effect.
    Fail(Part),
    /// Reverts a [`Change::Fail`] of the part.
    Recover(Part),
}

/// Partitions in effect.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// Severed pairs, with the smaller node first.
    severed: BTreeSet<(NodeId, NodeId)>,
    islands: Vec<BTreeSet<NodeId>>,
}

fn pair(a: NodeId, b: NodeId) -> (NodeId, NodeId) {
    (a.min(b), a.max(b))
}

impl Cuts {
    pub(crate) fn sever(&mut self, a: NodeId, b: NodeId) {
        self.severed.insert(pair(a, b));
    }

    pub(crate) fn mend(&mut self, a: NodeId, b: NodeId) {
        self.severed.remove(&pair(a, b));
    }

    pub(crate) fn partition(&mut self, island: BTreeSet<NodeId>) {
        self.islands.push(island);
    }

    pub(crate) fn heal(&mut self) {
        *self = Cuts::default();
    }

    /// Returns true if no packet can get from one node to the other.
    pub(crate) fn between(&self, a: NodeId, b: NodeId) -> bool {
        self.severed.contains(&pair(a, b))
            || self.islands.iter().any(|island| island.contains(&a) != island.contains(&b))
    }
}
