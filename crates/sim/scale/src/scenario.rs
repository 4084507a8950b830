//! What is to happen.

use core::time::Duration;
use sovia_link::stream::{Control, Timing};
use sovia_simnet::{Change, Fabric, NodeId};

/// Which nodes send to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Each node to each other one.
    AllToAll,
    /// Each node to one other, and from one other.
    Permutation,
    /// So many nodes to the first one.
    Incast(u32),
    /// As a permutation, and so many nodes send to the first one as well.
    HotSpot(u32),
}

/// A change of the network in the middle of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// After how long.
    pub after: Duration,
    /// What changes.
    pub change: Change,
}

/// A node that dies in the middle of a run, with all that it knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// After how long.
    pub after: Duration,
    /// The node.
    pub node: NodeId,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name in tables.
    pub name: String,
    /// How many nodes there are.
    pub nodes: u32,
    /// What joins them.
    pub fabric: Fabric,
    /// Which nodes send to which.
    pub traffic: Traffic,
    /// Bytes of a message.
    pub message: u32,
    /// Messages from a node to another.
    pub messages: u32,
    /// Messages from a node to another that are under way at a time.
    pub depth: u32,
    /// Frames of a stream that may be on their way.
    pub window: usize,
    /// What else limits a stream.
    pub control: Control,
    /// When something is sent again, and when the other end is given up.
    pub timing: Timing,
    /// What changes meanwhile.
    pub faults: Vec<Fault>,
    /// Nodes that die meanwhile.
    pub deaths: Vec<Death>,
    /// Where chance comes from.
    pub seed: u64,
}
