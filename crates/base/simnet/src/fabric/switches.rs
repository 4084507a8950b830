//! All ports of a fabric, and the path of a packet from port to port.

use super::plan::{Fabric, Part};
use super::port::{Port, Queueing, Sent};
use crate::Time;
use crate::node::NodeId;
use std::collections::BTreeSet;

/// Place of a packet after it has passed a cable, and the state of the cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop {
    place: Place,
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The leaf of the sending node.
    FirstLeaf,
    /// The spine with this number.
    Spine(u32),
    /// The leaf of the receiving node, reached from the spine with this number.
    LastLeaf(u32),
    /// The receiving node.
    Node,
}

/// Next step of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The packet has arrived.
    Arrived,
    /// The packet is at another place at this time; true if a switch has marked it.
    Travels(Time, Hop, bool),
    /// A queue was full.
    Overflowed,
    /// A cable or switch on the path has failed, or there is no path.
    Cut,
}

/// The two directions between a leaf and a spine.
#[derive(Debug, Clone, Copy, Default)]
struct Trunk {
    up: Port,
    down: Port,
}

/// The switches of a fabric.
#[derive(Debug)]
pub(crate) struct Switches {
    fabric: Fabric,
    seed: u64,
    /// Ports from each node and to each node.
    from: Vec<Port>,
    to: Vec<Port>,
    /// Trunks of the first leaf to each spine, then of the second leaf, and so on.
    trunks: Vec<Trunk>,
    /// Failed parts, and the parts that leaves avoid when they choose a spine.
    failed: BTreeSet<Part>,
    avoided: BTreeSet<Part>,
    queueing: Queueing,
}

impl Switches {
    pub(crate) fn new(fabric: Fabric, seed: u64) -> Switches {
        Switches {
            fabric: Fabric { leaf_nodes: fabric.leaf_nodes.max(1), ..fabric },
            seed,
            from: Vec::new(),
            to: Vec::new(),
            trunks: Vec::new(),
            failed: BTreeSet::new(),
            avoided: BTreeSet::new(),
            queueing: Queueing::default(),
        }
    }

    pub(crate) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    pub(crate) fn queueing(&self) -> Queueing {
        self.queueing
    }

    pub(crate) fn add_node(&mut self) {
        self.from.push(Port::default());
        self.to.push(Port::default());
        let last = NodeId(self.from.len() as u32 - 1);
        let trunks = (self.leaf(last) as usize + 1) * self.fabric.spines as usize;
        self.trunks.resize(trunks, Trunk::default());
    }

    fn leaf(&self, node: NodeId) -> u32 {
        node.0 / self.fabric.leaf_nodes
    }

    fn trunk(&self, leaf: u32, spine: u32) -> usize {
        leaf as usize * self.fabric.spines as usize + spine as usize
    }

    /// Returns the time when all packets sent by a node have left it.
    pub(crate) fn sent_by(&self, node: NodeId) -> Time {
        self.from[node.0 as usize].free_at()
    }

    fn access_works(&self, node: NodeId) -> bool {
        let parts = [Part::Access(node), Part::Leaf(self.leaf(node))];
        self.failed.is_empty() || !parts.iter().any(|part| self.failed.contains(part))
    }

    fn trunk_works(failed: &BTreeSet<Part>, leaf: u32, spine: u32) -> bool {
        let parts = [Part::Trunk { leaf, spine }, Part::Leaf(leaf), Part::Spine(spine)];
        failed.is_empty() || !parts.iter().any(|part| failed.contains(part))
    }

    /// Sends a packet from a node.
    pub(crate) fn send(&mut self, from: NodeId, bytes: u32, now: Time) -> Fate {
        if !self.access_works(from) {
            return Fate::Cut;
        }
        let sent = self.from[from.0 as usize].send(&self.fabric.access, bytes, now);
        travels(sent, Place::FirstLeaf)
    }

    /// Handles a packet that has passed a cable.
    pub(crate) fn passed(
        &mut self,
        hop: Hop,
        (from, to): (NodeId, NodeId),
        bytes: u32,
        now: Time,
    ) -> Fate {
        if self.failures(hop.place, from, to) != hop.failures {
            return Fate::Cut;
        }
        let (first, last) = (self.leaf(from), self.leaf(to));
        let next = match hop.place {
            Place::Node => return Fate::Arrived,
            Place::FirstLeaf if first != last => match self.spine(from, to) {
                Some(spine) if Switches::trunk_works(&self.failed, first, spine) => {
                    Place::Spine(spine)
                }
                _ => return Fate::Cut,
            },
            Place::Spine(spine) if Switches::trunk_works(&self.failed, last, spine) => {
                Place::LastLeaf(spine)
            }
            Place::Spine(_) => return Fate::Cut,
            Place::FirstLeaf | Place::LastLeaf(_) if self.access_works(to) => Place::Node,
            Place::FirstLeaf | Place::LastLeaf(_) => return Fate::Cut,
        };
        let cable = if next == Place::Node { self.fabric.access } else { self.fabric.trunk };
        let mut queueing = self.queueing;
        let sent = self.port(next, from, to).offer(&cable, bytes, now, &mut queueing);
        self.queueing = queueing;
        sent.map_or(Fate::Overflowed, |sent| travels(sent, next))
    }

    /// Returns the port to a place.
    fn port(&mut self, place: Place, from: NodeId, to: NodeId) -> &mut Port {
        match place {
            Place::FirstLeaf => &mut self.from[from.0 as usize],
            Place::Spine(spine) => {
                let trunk = self.trunk(self.leaf(from), spine);
                &mut self.trunks[trunk].up
            }
            Place::LastLeaf(spine) => {
                let trunk = self.trunk(self.leaf(to), spine);
                &mut self.trunks[trunk].down
            }
            Place::Node => &mut self.to[to.0 as usize],
        }
    }

    fn failures(&mut self, place: Place, from: NodeId, to: NodeId) -> u32 {
        self.port(place, from, to).failures()
    }

    /// Returns the spine for packets from one node to another. Among the spines that both leaves believe to work, it is
    /// the one with the highest hash. So the failure of a spine changes only the paths through this spine.
    fn spine(&self, from: NodeId, to: NodeId) -> Option<u32> {
        let (first, last) = (self.leaf(from), self.leaf(to));
        let works = |spine: &u32| {
            Switches::trunk_works(&self.avoided, first, *spine)
                && Switches::trunk_works(&self.avoided, last, *spine)
        };
        let rank = |spine: &u32| mixed(self.seed, from, to, *spine);
        (0..self.fabric.spines).filter(works).max_by_key(rank)
    }

    /// Makes a part fail.
    pub(crate) fn fail(&mut self, part: Part, now: Time) {
        if !self.failed.insert(part) {
            return;
        }
        for node in 0..self.from.len() {
            let id = NodeId(node as u32);
            if part == Part::Access(id) || part == Part::Leaf(self.leaf(id)) {
                self.from[node].fail(now);
                self.to[node].fail(now);
            }
        }
        let spines = self.fabric.spines.max(1) as usize;
        for (place, trunk) in self.trunks.iter_mut().enumerate() {
            let (leaf, spine) = ((place / spines) as u32, (place % spines) as u32);
            if [Part::Trunk { leaf, spine }, Part::Leaf(leaf), Part::Spine(spine)].contains(&part) {
                trunk.up.fail(now);
                trunk.down.fail(now);
            }
        }
    }

    /// Makes a part work again.
    pub(crate) fn recover(&mut self, part: Part) {
        self.failed.remove(&part);
    }

    /// Makes the leaves avoid the parts that have failed by now.
    pub(crate) fn reroute(&mut self) {
        self.avoided.clone_from(&self.failed);
    }
}

fn travels(Sent { at, is_marked, failures }: Sent, place: Place) -> Fate {
    Fate::Travels(at, Hop { place, failures }, is_marked)
}

/// Returns a hash of a pair of nodes, a spine and the seed.
fn mixed(seed: u64, from: NodeId, to: NodeId, spine: u32) -> u64 {
    let pair = u64::from(from.0) << 32 | u64::from(to.0);
    [pair, u64::from(spine)].iter().fold(seed ^ 0x9E37_79B9_7F4A_7C15, |hash, &word| {
        // The finalizer of SplitMix64.
        let hash = (hash ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        hash ^ (hash >> 31)
    })
}
