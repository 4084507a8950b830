//! Which NICs there are, by their addresses, and by the numbers that they give themselves.

use crate::message::ADDRESS_MAX;
use crate::presence::started;
use sovia_ofi::Peer;
use std::collections::HashMap;

/// A NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

impl Node {
    /// This one.
    pub(crate) const OWN: Node = Node(0);
}

/// NICs that are known at most: an address can be claimed by whatever sends to this one.
const NODES_MAX: usize = 1 << 16;
/// Numbers that are known at most, of the processes that were at an address one after the other. None is forgotten for another
/// one, or a stranger that claims an address could have its NIC forgotten.
const NUMBERS_MAX: usize = 1 << 17;

#[derive(Debug)]
struct Known {
    address: Box<[u8]>,
    /// libfabric's name of it, once a message has been sent there.
    peer: Option<Peer>,
    /// It has been told this NIC's address.
    introduced: bool,
    /// When its process has started, where its address names that.
    since: Option<u64>,
}

/// All NICs that are known.
#[derive(Debug)]
pub(crate) struct Nodes {
    known: Vec<Known>,
    by_address: HashMap<Box<[u8]>, Node>,
    by_number: HashMap<u64, Node>,
    by_peer: HashMap<Peer, Node>,
    /// Bytes of an address, where all have as many.
    length: Option<usize>,
}

impl Nodes {
    /// Only this one, of that address. With `alike` all addresses are as long as its own.
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

    /// The NIC of an address; `None` of what is no address, and where too many are known.
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

    /// The NIC that has given itself that number.
    pub(crate) fn of_number(&self, number: u64) -> Option<Node> {
        self.by_number.get(&number).copied()
    }

    /// The NIC of that name of libfabric's.
    pub(crate) fn of_peer(&self, peer: Peer) -> Option<Node> {
        self.by_peer.get(&peer).copied()
    }

    /// The NIC that has sent this address and number. `None` if the number belongs to another NIC already.
    pub(crate) fn introduced(&mut self, address: &[u8], number: u64) -> Option<Node> {
        let node = self.find(address)?;
        if let Some(&other) = self.by_number.get(&number) {
            return (other == node).then_some(node);
        }
        if self.by_number.len() >= NUMBERS_MAX {
            return None;
        }
        self.by_number.insert(number, node);
        // A new process at the address does not know this NIC's address.
        self.known.get_mut(node.0 as usize)?.introduced = false;
        self.date(node);
        Some(node)
    }

    /// Notes which process is at a NIC's address now.
    fn date(&mut self, node: Node) {
        if let Some(known) = self.known.get_mut(node.0 as usize) {
            known.since = started(&known.address);
        }
    }

    /// When the process of a NIC has started, as far as its address says.
    pub(crate) fn since(&self, node: Node) -> Option<u64> {
        self.known.get(node.0 as usize)?.since
    }

    pub(crate) fn address(&self, node: Node) -> &[u8] {
        self.known.get(node.0 as usize).map_or(&[], |known| &known.address)
    }

    /// libfabric's name of a NIC.
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

    /// Whether a NIC has still to be sent this one's address; true once for each process there.
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
