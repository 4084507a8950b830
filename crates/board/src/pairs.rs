//! Which two connections are the two ends of one.

use crate::scan::Scan;
use core::net::SocketAddr;
use std::collections::HashMap;

/// For each connection of a scan the place of its other end, where that shows itself as well.
pub type Pairs = Vec<Option<usize>>;

/// Finds the ends that belong together: those that say the same two addresses, in one network namespace, or in any if there is
/// only one that does. A process may say what it likes: where several say the same, none is believed.
pub fn pairs(scan: &Scan) -> Pairs {
    type Key = (SocketAddr, SocketAddr);
    let mut ends: HashMap<Key, Vec<usize>> = HashMap::new();
    for (at, connection) in scan.connections.iter().enumerate() {
        if let Some(key) = connection.addresses() {
            ends.entry(key).or_default().push(at);
        }
    }
    let other_of = |at: usize| {
        let connection = &scan.connections[at];
        let (local, peer) = connection.addresses()?;
        let there = ends.get(&(peer, local))?;
        let is_here = |other: &usize| scan.connections[*other].net == connection.net;
        let here: Vec<usize> = there.iter().copied().filter(is_here).collect();
        let may_be = if here.is_empty() { there } else { &here };
        // A connection to itself has one end.
        may_be.first().copied().filter(|&one| may_be.len() == 1 && one != at)
    };
    let found: Pairs = (0..scan.connections.len()).map(other_of).collect();
    let is_mutual = |at: usize, other: usize| found[other] == Some(at);
    let mutual = found.iter().enumerate();
    mutual.map(|(at, other)| other.filter(|&other| is_mutual(at, other))).collect()
}
