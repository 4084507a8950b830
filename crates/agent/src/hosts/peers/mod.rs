//! Agents that an agent knows: their keys, their addresses, and the networks for which each may offer connections.
//!
//! - `text`: syntax of peers on the command line and in a file.

mod text;

pub use text::{PeerError, read};

use super::key::PublicKey;
use core::net::{IpAddr, SocketAddr};
use ipnet::IpNet;
use std::collections::HashMap;

/// Index of a peer in [`Peers`].
pub(crate) type PeerId = usize;

/// Another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Public key of the agent.
    pub key: PublicKey,
    /// Address at which the agent listens.
    pub address: SocketAddr,
    /// Networks of the agent: it may offer connections of sockets with these addresses.
    pub networks: Vec<IpNet>,
}

/// A peer, and the place where the user has specified it: an argument, or a line of a file.
#[derive(Debug, Clone)]
pub struct Named {
    /// Place of the specification, for messages.
    pub origin: String,
    /// The peer.
    pub peer: Peer,
}

/// Agents that an agent knows. No two of them have the same key, address or network.
#[derive(Debug, Clone)]
pub struct Peers {
    all: Vec<Peer>,
    keys: HashMap<PublicKey, PeerId>,
    /// Sorted by prefix length, longest prefix first.
    routes: Vec<(IpNet, PeerId)>,
}

/// Reason why an agent cannot have these peers.
#[derive(Debug, thiserror::Error)]
pub enum Conflict {
    /// There are no peers.
    #[error("no peer given; use --peer KEY@IP:PORT or --peers FILE")]
    Nobody,
    /// A peer has the agent's own key.
    #[error("{0}: this is the agent's own key; each agent needs a key of its own")]
    Own(String),
    /// A peer's address family differs from the agent's own.
    #[error("{0}: {1} is not of the same address family as --listen")]
    Family(String, SocketAddr),
    /// Two peers have the same key.
    #[error("{0} and {1} have the same key; each agent needs a key of its own")]
    Key(String, String),
    /// Two peers have the same address.
    #[error("{0} and {1} are both at {2}; each agent needs an address and port of its own")]
    Place(String, String, SocketAddr),
    /// Two peers have the same network.
    #[error("{0} and {1} both have the network {2}; a network can belong to one agent only")]
    Network(String, String, IpNet),
}

impl Peers {
    /// Checks the peers of an agent that has the key `own` and listens at `listen`.
    ///
    /// # Errors
    /// [`Conflict`]
    pub fn new(
        own: PublicKey,
        listen: SocketAddr,
        named: Vec<Named>,
    ) -> Result<Peers, Box<Conflict>> {
        let mut keys = HashMap::new();
        let mut places = HashMap::new();
        let mut networks: HashMap<IpNet, PeerId> = HashMap::new();
        let origin = |peer: PeerId| named[peer].origin.clone();
        for (number, Named { peer, .. }) in named.iter().enumerate() {
            if peer.key == own {
                return Err(Box::new(Conflict::Own(origin(number))));
            }
            if peer.address.is_ipv4() != listen.is_ipv4() {
                return Err(Box::new(Conflict::Family(origin(number), peer.address)));
            }
            if let Some(other) = keys.insert(peer.key, number) {
                return Err(Box::new(Conflict::Key(origin(other), origin(number))));
            }
            if let Some(other) = places.insert(peer.address, number) {
                let conflict = Conflict::Place(origin(other), origin(number), peer.address);
                return Err(Box::new(conflict));
            }
            for network in &peer.networks {
                let network = network.trunc();
                match networks.insert(network, number) {
                    Some(other) if other != number => {
                        let conflict = Conflict::Network(origin(other), origin(number), network);
                        return Err(Box::new(conflict));
                    }
                    _ => {}
                }
            }
        }
        if named.is_empty() {
            return Err(Box::new(Conflict::Nobody));
        }
        let mut routes: Vec<_> = networks.into_iter().collect();
        routes.sort_by_key(|(network, _)| core::cmp::Reverse(network.prefix_len()));
        Ok(Peers { all: named.into_iter().map(|it| it.peer).collect(), keys, routes })
    }

    /// Returns all peers, in the order of their numbers.
    pub(crate) fn all(&self) -> &[Peer] {
        &self.all
    }

    /// Returns the peer that has a key.
    pub(super) fn of_key(&self, key: &PublicKey) -> Option<PeerId> {
        self.keys.get(key).copied()
    }

    /// Returns the peer whose programs may have this address. If several networks contain the address, the smallest
    /// one counts.
    pub(crate) fn for_address(&self, address: IpAddr) -> Option<PeerId> {
        let address = address.to_canonical();
        let found = self.routes.iter().find(|(network, _)| network.contains(&address));
        found.map(|(_, peer)| *peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::SecretKey;

    fn key() -> PublicKey {
        SecretKey::generate().unwrap().public()
    }

    fn peers(texts: &[(PublicKey, &str)]) -> Result<Peers, String> {
        let named = texts.iter().enumerate().map(|(number, (key, rest))| Named {
            origin: format!("peer {number}"),
            peer: format!("{key}@{rest}").parse().unwrap(),
        });
        let listen = "10.0.0.1:7471".parse().unwrap();
        Peers::new(key(), listen, named.collect()).map_err(|conflict| conflict.to_string())
    }

    #[test]
    fn smallest_network_that_has_an_address_decides() {
        let texts = [
            "10.0.0.2:7471",
            "10.0.0.3:7471,10.0.0.0/8",
            "10.0.0.4:7471,10.1.0.0/16,10.1.2.3,fd00::/8",
            "10.0.0.5:7471,10.1.2.0/24",
        ];
        let peers = peers(&texts.map(|text| (key(), text))).unwrap();
        let all = [
            ("10.0.0.2", Some(0)),
            ("10.0.0.5", Some(1)),
            ("10.1.9.9", Some(2)),
            ("10.1.2.3", Some(2)),
            ("10.1.2.4", Some(3)),
            ("::ffff:10.1.2.4", Some(3)),
            ("fd00::1", Some(2)),
            ("192.0.2.1", None),
            ("2001:db8::1", None),
        ];
        for (address, peer) in all {
            assert_eq!(peers.for_address(address.parse().unwrap()), peer, "{address}");
        }
    }

    #[test]
    fn peer_is_found_by_its_key() {
        let keys = [(); 3].map(|()| key());
        let all = peers(&[(keys[0], "10.0.0.2:1"), (keys[1], "10.0.0.2:2,10.0.0.3")]).unwrap();
        assert_eq!(keys.map(|key| all.of_key(&key)), [Some(0), Some(1), None]);
    }

    #[test]
    fn what_two_peers_cannot_share_is_refused_with_both_their_origins() {
        let [a, b] = [(); 2].map(|()| key());
        let refused = |texts: &[(PublicKey, &str)]| peers(texts).unwrap_err();
        let same_key = refused(&[(a, "10.0.0.2:1"), (a, "10.0.0.3:1")]);
        assert!(same_key.starts_with("peer 0 and peer 1 have the same key"), "{same_key}");
        let same_place = refused(&[(a, "10.0.0.2:1"), (b, "10.0.0.2:1,10.0.0.9")]);
        assert!(same_place.contains("peer 0 and peer 1 are both at 10.0.0.2:1"), "{same_place}");
        let texts = [(a, "10.0.0.2:1,10.2.0.0/16"), (b, "10.0.0.3:1,10.2.9.9/16")];
        let same_network = refused(&texts);
        assert!(same_network.contains("both have the network 10.2.0.0/16"), "{same_network}");
        let other_family = refused(&[(a, "[fd00::1]:1")]);
        assert!(other_family.contains("address family"), "{other_family}");
        assert!(refused(&[]).contains("no peer given"));
        let own =
            Named { origin: "--peer".into(), peer: format!("{a}@10.0.0.2:1").parse().unwrap() };
        let refused = Peers::new(a, "10.0.0.1:1".parse().unwrap(), vec![own]).unwrap_err();
        assert!(refused.to_string().starts_with("--peer: this is the agent's own key"));
    }

    #[test]
    fn network_that_one_peer_has_twice_is_one() {
        assert!(peers(&[(key(), "10.0.0.2:1,10.2.0.0/16,10.2.0.0/16")]).is_ok());
    }
}
