//! Which nodes cannot reach each other, and how that changes.

use crate::fabric::Part;
use crate::link::Link;
use crate::node::NodeId;
use std::collections::BTreeSet;

/// A change of the network itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The two nodes cannot reach each other any more. What is on its way between them is lost.
    Sever(NodeId, NodeId),
    /// Takes a [`Change::Sever`] of the two back.
    Mend(NodeId, NodeId),
    /// The nodes reach one another, but no other node, and no other node reaches them.
    Partition(BTreeSet<NodeId>),
    /// Takes every [`Change::Sever`] and [`Change::Partition`] back.
    Heal,
    /// The link from the first node to the second behaves differently from now on.
    Link(NodeId, NodeId, Link),
    /// A part of the fabric fails; what is in its queues and on its cables is lost. Nothing, where there is no fabric.
    Fail(Part),
    /// Takes a [`Change::Fail`] of the part back.
    Recover(Part),
}

/// What is cut.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// Pairs, the smaller node first.
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

    /// Whether nothing gets from the one to the other.
    pub(crate) fn between(&self, a: NodeId, b: NodeId) -> bool {
        self.severed.contains(&pair(a, b))
            || self.islands.iter().any(|island| island.contains(&a) != island.contains(&b))
    }
}
