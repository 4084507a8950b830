//! Peers from the command line.

use core::net::IpAddr;
use ipnet::IpNet;
use sovia_lane::PeerConfig;
use sovia_nic::AnyNic;

/// Value of `--peer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    network: IpNet,
    place: String,
    host: Box<[u8]>,
}

impl Peer {
    /// Parses `NETWORK=PLACE`.
    pub(crate) fn parse(text: &str) -> Result<Peer, String> {
        let (network, place) = text
            .split_once('=')
            .ok_or("expected NETWORK=PLACE, such as 10.200.0.2=udp:10.0.0.2:7000")?;
        let single = network.parse::<IpAddr>().map(IpNet::from);
        let network = single
            .or_else(|_| network.parse::<IpNet>())
            .map_err(|_| {
                format!("{network}: expected addresses, such as 10.200.0.2 or 10.201.0.0/16")
            })?
            .trunc();
        if network.addr().is_multicast() {
            return Err(format!("{network}: lanes do not carry multicast addresses"));
        }
        let host = AnyNic::host_of(place).map_err(|error| error.to_string())?;
        Ok(Peer { network, place: place.to_owned(), host })
    }
}

/// Merges the networks of peers at the same place.
pub(crate) fn together(peers: &[Peer]) -> anyhow::Result<Vec<PeerConfig>> {
    let mut all: Vec<PeerConfig> = Vec::new();
    for Peer { network, place, host } in peers {
        if let Some(known) = all.iter_mut().find(|known| known.host == *host) {
            known.networks.push(*network);
            continue;
        }
        let shown = if network.prefix_len() == network.max_prefix_len() {
            network.addr().to_string()
        } else {
            network.to_string()
        };
        let name = format!("{shown} at {place}");
        all.push(PeerConfig { name, host: host.clone(), networks: vec![*network] });
    }
    let kinds = all.iter().map(|peer| peer.host.len());
    anyhow::ensure!(
        kinds.clone().min() == kinds.max(),
        "cannot use --peer with places of several kinds: a lane has one NIC, which reaches only NICs of the same kind"
    );
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(texts: &[&str]) -> anyhow::Result<Vec<PeerConfig>> {
        together(&texts.iter().map(|text| Peer::parse(text).unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn networks_of_one_place_are_one_peers() {
        let found =
            peers(&["10.200.0.2=shm:b", "fd00::2=shm:b", "10.7.8.9/16=shm:b", "10.200.0.3=shm:c"]);
        let found = found.unwrap();
        let names: Vec<_> = found.iter().map(|peer| peer.name.as_str()).collect();
        assert_eq!(names, ["10.200.0.2 at shm:b", "10.200.0.3 at shm:c"]);
        let networks: Vec<_> = found[0].networks.iter().map(IpNet::to_string).collect();
        assert_eq!(networks, ["10.200.0.2/32", "fd00::2/128", "10.7.0.0/16"]);
        assert_eq!(found[1].networks.len(), 1);
    }

    #[test]
    fn places_of_two_kinds_are_refused() {
        let error = peers(&["10.0.0.2=udp:10.1.0.2:7", "10.0.0.3=udp:[fd00::3]:7"]).unwrap_err();
        assert!(error.to_string().contains("of several kinds"), "{error}");
    }
}
