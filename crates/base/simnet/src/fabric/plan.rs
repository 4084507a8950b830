//! What a fabric is like.

use crate::node::NodeId;
use core::time::Duration;

/// A cable between two devices, the same in both directions, and the queue that each switch has before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cable {
    /// Bytes per second; at least one.
    pub rate: u64,
    /// How long the last bit of a packet takes from one end to the other.
    pub latency: Duration,
    /// Bytes of packets that a switch keeps for the cable. A packet for which there is no room is lost.
    pub queue: u64,
    /// A packet that meets more bytes than that in the queue is marked (ECN CE). `None`: none ever is.
    pub mark_above: Option<u64>,
}

/// Nodes at leaf switches, and the leaf switches at spine switches.
///
/// A packet between nodes of one leaf passes that leaf alone, any other one spine as well. Which spine follows from the
/// two nodes and the seed of the network, so that the packets from one node to another stay in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fabric {
    /// Nodes of one leaf switch; at least one. The first so many nodes are those of the first leaf, and so on.
    pub leaf_nodes: u32,
    /// Spine switches, each with a cable to each leaf. Without one, leaves do not reach each other.
    pub spines: u32,
    /// What joins a node to its leaf.
    pub access: Cable,
    /// What joins a leaf to a spine.
    pub trunk: Cable,
    /// How long after a failure or a recovery of a trunk the leaves choose their spines by it. Until then, packets are
    /// sent into a cable that has failed, and are lost.
    pub reroute: Duration,
}

impl Fabric {
    /// One switch with all nodes.
    pub const fn star(access: Cable) -> Fabric {
        Fabric { leaf_nodes: u32::MAX, spines: 0, access, trunk: access, reroute: Duration::ZERO }
    }
}

/// What can fail in a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The cable of a node, or the node itself: to the others that is the same.
    Access(NodeId),
    /// The cable between the leaf and the spine of those numbers.
    Trunk {
        /// The leaf.
        leaf: u32,
        /// The spine.
        spine: u32,
    },
    /// The leaf switch of that number, with all of its cables.
    Leaf(u32),
    /// The spine switch of that number, with all of its cables.
    Spine(u32),
}
