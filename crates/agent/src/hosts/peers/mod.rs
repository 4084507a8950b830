//! Which other agents an agent knows: their keys, where they listen, and for which addresses each may speak.
//!
//! - `text`: how they are written, at the command line and in a file.

mod text;

pub use text::{PeerError, read};

use super::key::PublicKey;
use core::net::{IpAddr, SocketAddr};
use ipnet::IpNet;
use std::collections::HashMap;

/// A peer by its place in [`Peers`].
pub(crate) type PeerId = usize;

/// Another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The key by which it is known.
    pub key: PublicKey,
    /// Where it listens.
    pub address: SocketAddr,
    /// The addresses for which it may speak: those of its programs' sockets.
    pub networks: Vec<IpNet>,
}

/// A peer, and where it is written, for people: an argument, or a line of a file.
#[derive(Debug, Clone)]
pub struct Named {
    /// Where it is written.
    pub origin: String,
    /// The peer.
    pub peer: Peer,
}

/// The agents that an agent knows. No two of them have the same key, place or network.
#[derive(Debug, Clone)]
pub struct Peers {
    all: Vec<Peer>,
    keys: HashMap<PublicKey, PeerId>,
    /// The longest prefix first.
    routes: Vec<(IpNet, PeerId)>,
}

/// Why an agent cannot know these peers.
#[derive(Debug, thiserror::Error)]
pub enum Conflict {
    /// There are none.
    #[error("no peer given; use --peer KEY@IP:PORT or --peers FILE")]
    Nobody,
    /// One is the agent itself.
    #[error("{0}: this is the agent's own key; each agent needs a key of its own")]
    Own(String),
    /// One has an address of another kind than the agent listens at.
    #[error("{0}: {1} is not of the same address family as --listen")]
    Family(String, SocketAddr),
    /// Two have the same key.
    #[error("{0} and {1} have the same key; each agent needs a key of its own")]
    Key(String, String),
    /// Two are at the same place.
    #[error("{0} and {1} are both at {2}; each agent needs an address and port of its own")]
    Place(String, String, SocketAddr),
    /// Two claim the same network.
    #[error("{0} and {1} both have the network {2}; a network can belong to one agent only")]
    Network(String, String, IpNet),
}

impl Peers {
    /// Checks that an agent that has that key and listens there can know all of these.
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

    /// All of them, by their numbers.
    pub(crate) fn all(&self) -> &[Peer] {
        &self.all
    }

    /// The peer that has a key.
    pub(super) fn of_key(&self, key: &PublicKey) -> Option<PeerId> {
        self.keys.get(key).copied()
    }

    /// The peer that may speak for a program with that address: of several networks that have it, the smallest one's.
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
