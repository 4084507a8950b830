//! Finds the two ends of each connection.

use crate::scan::Scan;
use core::net::SocketAddr;
use std::collections::HashMap;

/// For each connection of a scan, the index of its other end. `None` if the scan does not contain the other end.
pub type Pairs = Vec<Option<usize>>;

/// Finds ends that belong together: two ends with the same two addresses in one network namespace. If this
/// namespace has no such end, the only end in any namespace matches. A process may state any addresses. So if
/// several ends state the same ones, none of them matches, and a match must be mutual.
pub fn pairs(scan: &Scan) -> Pairs {
    type Key = (SocketAddr, SocketAddr);
    // Index of the last end with each pair of addresses. `before` links each end to the previous end with the same
    // pair.
    let mut last: HashMap<Key, usize> = HashMap::with_capacity(scan.connections.len());
    let mut before: Vec<Option<usize>> = vec![None; scan.connections.len()];
    for (at, connection) in scan.connections.iter().enumerate() {
        if let Some(key) = connection.addresses() {
            before[at] = last.insert(key, at);
        }
    }
    let from = |at: Option<usize>| core::iter::successors(at, |&at| before[at]);
    let other_of = |at: usize| {
        let connection = &scan.connections[at];
        let (local, peer) = connection.addresses()?;
        let there = || from(last.get(&(peer, local)).copied());
        let is_here = |other: &usize| scan.connections[*other].net == connection.net;
        let here = the_only(there().filter(is_here));
        let found = match here {
            Found::None => the_only(there()),
            here => here,
        };
        // A connection of a socket to itself has only one end.
        match found {
            Found::One(one) if one != at => Some(one),
            _ => None,
        }
    };
    let found: Pairs = (0..scan.connections.len()).map(other_of).collect();
    let is_mutual = |at: usize, other: usize| found[other] == Some(at);
    let mutual = found.iter().enumerate();
    mutual.map(|(at, other)| other.filter(|&other| is_mutual(at, other))).collect()
}

enum Found {
    None,
    One(usize),
    Several,
}

/// Returns the only item, or states that there are none or several. Reads at most two items.
fn the_only(mut those: impl Iterator<Item = usize>) -> Found {
    match (those.next(), those.next()) {
        (None, _) => Found::None,
        (Some(one), None) => Found::One(one),
        (Some(_), Some(_)) => Found::Several,
    }
}
