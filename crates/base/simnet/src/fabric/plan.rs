//! Description of a fabric.

use crate::node::NodeId;
use core::time::Duration;

/// A cable between two devices, equal in both directions, and the queue that each switch has for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cable {
    /// Bytes per second, at least 1.
    pub rate: u64,
    /// Time that the last bit of a packet takes from one end to the other.
    pub latency: Duration,
    /// Size of a switch's queue for the cable, in bytes of packets. A packet without room is lost.
    pub queue: u64,
    /// A packet is marked (ECN CE) if the queue has more bytes than this when it arrives. With `None` no packet is
    /// marked.
    pub mark_above: Option<u64>,
}

/// A fabric of nodes at leaf switches, and leaf switches at spine switches.
///
/// A packet between nodes of one leaf passes only this leaf. Any other packet passes a spine as well. The two nodes and
/// the network's seed decide the spine. So packets from one node to another keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fabric {
    /// Number of nodes at a leaf switch, at least 1. The first nodes belong to the first leaf, and so on.
    pub leaf_nodes: u32,
    /// Number of spine switches, each with a cable to each leaf. Without spines, leaves cannot reach each other.
    pub spines: u32,
    /// Cable between a node and its leaf.
    pub access: Cable,
    /// Cable between a leaf and a spine.
    pub trunk: Cable,
    /// Time after which the leaves react to the failure or recovery of a trunk. Until then they send packets into the
    /// failed cable, and the packets are lost.
    pub reroute: Duration,
}

impl Fabric {
    /// Makes a fabric of one switch with all nodes.
    pub const fn star(access: Cable) -> Fabric {
        Fabric { leaf_nodes: u32::MAX, spines: 0, access, trunk: access, reroute: Duration::ZERO }
    }
}

/// A part of a fabric that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The cable of a node, or the node itself: other nodes cannot tell the difference.
    Access(NodeId),
    /// The cable between a leaf and a spine.
    Trunk {
        /// Number of the leaf.
        leaf: u32,
        /// Number of the spine.
        spine: u32,
    },
    /// The leaf switch with this number, with all its cables.
    Leaf(u32),
    /// The spine switch with this number, with all its cables.
    Spine(u32),
}
