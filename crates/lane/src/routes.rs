//! Finds the peer that has an address.

use core::net::IpAddr;
use ipnet::IpNet;

/// Networks of all peers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    /// Sorted by prefix length, longest prefix first.
    networks: Vec<(IpNet, usize)>,
}

/// Error for a network that is given to two peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "two peers have the network {0}; a peer may have a part of another peer's network, but not the whole network"
)]
pub struct Overlap(pub IpNet);

impl Routes {
    /// Gives a network to a peer. Longer prefixes within the network may belong to other peers.
    pub(crate) fn add(&mut self, network: IpNet, peer: usize) -> Result<(), Overlap> {
        let network = network.trunc();
        if let Some((_, other)) = self.networks.iter().find(|(known, _)| *known == network) {
            return if *other == peer { Ok(()) } else { Err(Overlap(network)) };
        }
        let longer = |(known, _): &(IpNet, usize)| known.prefix_len() >= network.prefix_len();
        let at = self.networks.partition_point(longer);
        self.networks.insert(at, (network, peer));
        Ok(())
    }

    /// Returns the peer that has an address.
    #[inline]
    pub(crate) fn find(&self, address: IpAddr) -> Option<usize> {
        let found = self.networks.iter().find(|(network, _)| network.contains(&address));
        found.map(|(_, peer)| *peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(networks: &[(&str, usize)]) -> Result<Routes, Overlap> {
        let mut routes = Routes::default();
        for (network, peer) in networks {
            routes.add(network.parse().unwrap(), *peer)?;
        }
        Ok(routes)
    }

    #[test]
    fn longest_prefix_decides_whatever_was_added_first() {
        let networks = [("10.0.0.0/8", 0), ("10.1.2.3/32", 1), ("10.1.0.0/16", 2), ("fd00::/8", 1)];
        for turn in 0..networks.len() {
            let mut networks = networks;
            networks.rotate_left(turn);
            let routes = routes(&networks).unwrap();
            let found = |text: &str| routes.find(text.parse().unwrap());
            assert_eq!(found("10.9.9.9"), Some(0));
            assert_eq!(found("10.1.2.3"), Some(1));
            assert_eq!(found("10.1.2.4"), Some(2));
            assert_eq!(found("fd12::1"), Some(1));
            assert_eq!(
                (found("11.0.0.1"), found("fe80::1"), found("::10.1.2.3")),
                (None, None, None)
            );
        }
    }

    #[test]
    fn network_of_two_peers_is_refused() {
        let network = "10.1.0.0/16".parse().unwrap();
        assert_eq!(
            routes(&[("10.1.0.0/16", 0), ("10.1.0.7/16", 1)]).unwrap_err(),
            Overlap(network)
        );
        assert!(routes(&[("10.1.0.0/16", 0), ("10.1.0.0/16", 0)]).is_ok());
    }
}
