//! Description of a run.

use core::time::Duration;
use sovia_link::stream::{Control, Timing};
use sovia_simnet::{Change, Fabric, NodeId};

/// Pattern of senders and receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Each node sends to each other one.
    AllToAll,
    /// Each node sends to one node and receives from one node.
    Permutation,
    /// This number of nodes send to the first one.
    Incast(u32),
    /// Each node sends as in a permutation, and this number of nodes also send to the first one.
    HotSpot(u32),
}

/// A change of the network during a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Time since the beginning.
    pub after: Duration,
    /// The change.
    pub change: Change,
}

/// A node's death during a run, with the loss of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// Time since the beginning.
    pub after: Duration,
    /// The node.
    pub node: NodeId,
}

/// A scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Name in tables.
    pub name: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Network between the nodes.
    pub fabric: Fabric,
    /// Pattern of senders and receivers.
    pub traffic: Traffic,
    /// Size of a message in bytes.
    pub message: u32,
    /// Number of messages in each flow.
    pub messages: u32,
    /// Largest number of a flow's messages in progress at a time.
    pub depth: u32,
    /// Largest number of unacknowledged frames of a stream.
    pub window: usize,
    /// Congestion control.
    pub control: Control,
    /// Timing of retransmissions and of giving up the peer.
    pub timing: Timing,
    /// Changes of the network during the run.
    pub faults: Vec<Fault>,
    /// Nodes that die during the run.
    pub deaths: Vec<Death>,
    /// Seed of all random choices.
    pub seed: u64,
}
