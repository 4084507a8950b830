//! The known NICs, by address and by the numbers that they have chosen.

use crate::message::ADDRESS_MAX;
use crate::presence::started;
use sovia_ofi::Peer;
use std::collections::HashMap;

/// A NIC: this one or a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

impl Node {
    /// This NIC.
    pub(crate) const OWN: Node = Node(0);
}

/// Largest number of known NICs. The number is bounded because any sender can claim any address.
const NODES_MAX: usize = 1 << 16;
/// Largest number of known numbers, including those of earlier processes at an address. No number is ever replaced,
/// because a false sender could claim an address and so displace its NIC.
const NUMBERS_MAX: usize = 1 << 17;

#[derive(Debug)]
struct Known {
    address: Box<[u8]>,
    /// libfabric's name of the NIC, after a message has been sent to it.
    peer: Option<Peer>,
    /// True if this NIC has sent its own address to the NIC.
    introduced: bool,
    /// Start time of the NIC's process, if its address names the process.
    since: Option<u64>,
}

/// All known NICs.
#[derive(Debug)]
pub(crate) struct Nodes {
    known: Vec<Known>,
    by_address: HashMap<Box<[u8]>, Node>,
    by_number: HashMap<u64, Node>,
    by_peer: HashMap<Peer, Node>,
    /// Length of an address, if all addresses have the same length.
    length: Option<usize>,
}

impl Nodes {
    /// Makes a table that has only this NIC. With `alike`, all addresses have the length of this NIC's address.
    pub(crate) fn new(own: &[u8], alike: bool) -> Nodes {
        let mut nodes = Nodes {
            known: Vec::new(),
            by_address: HashMap::new(),
            by_number: HashMap::new(),
            by_peer: HashMap::new(),
            length: alike.then_some(own.len()),
        };
        nodes.find(own);
        nodes
    }

    /// Returns the NIC of an address, which becomes known. Returns `None` for an invalid address, and if the table is
    /// full.
    pub(crate) fn find(&mut self, address: &[u8]) -> Option<Node> {
        if let Some(&node) = self.by_address.get(address) {
            return Some(node);
        }
        let fits = self.length.is_none_or(|length| length == address.len());
        let is_one = fits && (1..=ADDRESS_MAX).contains(&address.len());
        if !is_one || self.known.len() >= NODES_MAX {
            return None;
        }
        let node = Node(self.known.len() as u32);
        self.known.push(Known {
            address: address.into(),
            peer: None,
            introduced: false,
            since: None,
        });
        self.by_address.insert(address.into(), node);
        Some(node)
    }

    /// Returns the NIC that has chosen this number.
    pub(crate) fn of_number(&self, number: u64) -> Option<Node> {
        self.by_number.get(&number).copied()
    }

    /// Returns the NIC with this libfabric name.
    pub(crate) fn of_peer(&self, peer: Peer) -> Option<Node> {
        self.by_peer.get(&peer).copied()
    }

    /// Returns the NIC that has sent this address and number. Returns `None` if the number belongs to another NIC.
    pub(crate) fn introduced(&mut self, address: &[u8], number: u64) -> Option<Node> {
        let node = self.find(address)?;
        if let Some(&other) = self.by_number.get(&number) {
            return (other == node).then_some(node);
        }
        if self.by_number.len() >= NUMBERS_MAX {
            return None;
        }
        self.by_number.insert(number, node);
        // The number is new, so a new process is at the address. It does not know this NIC's address.
        self.known.get_mut(node.0 as usize)?.introduced = false;
        self.date(node);
        Some(node)
    }

    /// Records the start time of the process at a NIC's address.
    fn date(&mut self, node: Node) {
        if let Some(known) = self.known.get_mut(node.0 as usize) {
            known.since = started(&known.address);
        }
    }

    /// Returns the start time of a NIC's process, if its address names the process.
    pub(crate) fn since(&self, node: Node) -> Option<u64> {
        self.known.get(node.0 as usize)?.since
    }

    pub(crate) fn address(&self, node: Node) -> &[u8] {
        self.known.get(node.0 as usize).map_or(&[], |known| &known.address)
    }

    /// Returns libfabric's name of a NIC.
    pub(crate) fn peer(&self, node: Node) -> Option<Peer> {
        self.known.get(node.0 as usize)?.peer
    }

    /// Sets libfabric's name of a NIC.
    pub(crate) fn call(&mut self, node: Node, peer: Peer) {
        if let Some(known) = self.known.get_mut(node.0 as usize) {
            known.peer = Some(peer);
            self.by_peer.insert(peer, node);
            self.date(node);
        }
    }

    /// Returns true if this NIC still has to send its address to the NIC. Returns true only once for each process
    /// there.
    pub(crate) fn introduce(&mut self, node: Node) -> bool {
        let known = self.known.get_mut(node.0 as usize);
        known.is_some_and(|known| !core::mem::replace(&mut known.introduced, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_is_known_by_its_address_and_then_by_its_number() {
        let mut nodes = Nodes::new(b"own", true);
        assert_eq!((nodes.find(b"own"), nodes.find(b"longer")), (Some(Node::OWN), None));
        let node = nodes.find(b"one").unwrap();
        assert_eq!(nodes.of_number(5), None);
        assert_eq!(nodes.introduced(b"one", 5), Some(node));
        assert_eq!(nodes.of_number(5), Some(node));
        assert_eq!(nodes.introduced(b"two", 5), None, "the number is another NIC's");
        for number in 6..20 {
            nodes.introduced(b"one", number);
        }
        assert_eq!((nodes.of_number(5), nodes.of_number(19)), (Some(node), Some(node)));
        assert!(nodes.introduce(node) && !nodes.introduce(node));
    }
}
