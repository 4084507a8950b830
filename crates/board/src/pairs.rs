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
    // The last end that says a pair of addresses; and of each end the one before it that says the same.
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
        // A connection to itself has one end.
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

/// Whether there are none, one or several; looks at two of them at most.
fn the_only(mut those: impl Iterator<Item = usize>) -> Found {
    match (those.next(), those.next()) {
        (None, _) => Found::None,
        (Some(one), None) => Found::One(one),
        (Some(_), Some(_)) => Found::Several,
    }
}
