//! Syntax of peers: `KEY@IP:PORT,NETWORK,...` on the command line, and `KEY IP:PORT NETWORK ...` in a line of a file.

use super::super::key::{KeyError, PublicKey};
use super::{Named, Peer};
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;
use ipnet::IpNet;
use std::io;
use std::path::Path;

/// Maximum length in bytes of a file of peers.
const FILE_MAX: u64 = 1 << 20;

/// Reason why a text is not a valid peer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The key is missing, or the text after the key.
    #[error("expected {0}")]
    Form(&'static str),
    /// The key is invalid.
    #[error("`{0}`: {1}")]
    Key(String, KeyError),
    /// The address is invalid.
    #[error("`{0}` is not the address of an agent: expected IP:PORT, such as 10.0.0.2:7471")]
    Place(String),
    /// A network is invalid.
    #[error("`{0}` is not a network: expected an address, or a prefix such as 10.0.0.0/24")]
    Network(String),
    /// The file cannot be read.
    #[error("{0}")]
    File(#[from] io::Error),
    /// A line of the file is invalid.
    #[error("line {0}: {1}")]
    Line(usize, Box<PeerError>),
}

/// Parses a peer. A peer without networks gets the address at which it listens.
fn peer<'a>(
    key: &str,
    place: &str,
    networks: impl Iterator<Item = &'a str>,
) -> Result<Peer, PeerError> {
    let key: PublicKey = key.parse().map_err(|error| PeerError::Key(key.into(), error))?;
    let no_place = || PeerError::Place(place.into());
    let address: SocketAddr = place.parse().map_err(|_| no_place())?;
    if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
        return Err(no_place());
    }
    let mut networks = networks.map(network).collect::<Result<Vec<_>, _>>()?;
    if networks.is_empty() {
        networks.push(address.ip().to_canonical().into());
    }
    Ok(Peer { key, address, networks })
}

fn network(text: &str) -> Result<IpNet, PeerError> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).map_err(|_| PeerError::Network(text.into()))
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Peer, PeerError> {
        let form = PeerError::Form("KEY@IP:PORT, or KEY@IP:PORT,NETWORK,...");
        let Some((key, rest)) = text.split_once('@') else { return Err(form) };
        let mut words = rest.split(',').map(str::trim);
        let Some(place) = words.next() else { return Err(form) };
        peer(key, place, words)
    }
}

/// Reads peers from a file: one for each line. A comment begins with `#`.
///
/// # Errors
/// [`PeerError::File`] or [`PeerError::Line`]
pub fn read(path: &Path) -> Result<Vec<Named>, PeerError> {
    use std::io::Read;
    let mut text = String::new();
    let len = std::fs::File::open(path)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if len as u64 > FILE_MAX {
        let error =
            io::Error::other("the file is longer than 1 MiB, the limit for a list of peers");
        return Err(PeerError::File(error));
    }
    let origin = |line| format!("{}, line {line}", path.display());
    let named = |(line, peer)| Named { origin: origin(line), peer };
    Ok(lines(&text)?.into_iter().map(named).collect())
}

/// Parses the text of a file. Returns the peers with their line numbers.
fn lines(text: &str) -> Result<Vec<(usize, Peer)>, PeerError> {
    let mut peers = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        let mut words = line.split_whitespace();
        let Some(key) = words.next() else { continue };
        let Some(place) = words.next() else {
            let form = PeerError::Form("a public key, IP:PORT, and optional networks");
            return Err(PeerError::Line(number, Box::new(form)));
        };
        let peer = peer(key, place, words);
        peers.push((number, peer.map_err(|error| PeerError::Line(number, Box::new(error)))?));
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::SecretKey;
    use proptest::prelude::*;

    fn key() -> PublicKey {
        SecretKey::generate().unwrap().public()
    }

    #[test]
    fn argument_has_key_place_and_networks() {
        let key = key();
        let peer: Peer = format!("{key}@10.0.0.2:7471,10.1.0.0/16, 10.2.0.1").parse().unwrap();
        assert_eq!((peer.key, peer.address), (key, "10.0.0.2:7471".parse().unwrap()));
        assert_eq!(peer.networks, ["10.1.0.0/16", "10.2.0.1/32"].map(|it| it.parse().unwrap()));
        let peer: Peer = format!("{key}@[fd00::2]:7471").parse().unwrap();
        assert_eq!(
            peer.networks,
            ["fd00::2/128".parse().unwrap()],
            "it speaks for its own address"
        );
    }

    #[test]
    fn mistake_in_an_argument_is_named_with_what_is_expected() {
        let key = key();
        for (text, said) in [
            (format!("{key}"), "expected KEY@IP:PORT"),
            ("abc@10.0.0.2:7471".into(), "`abc`: expected a key"),
            (format!("{key}@10.0.0.2"), "`10.0.0.2` is not the address of an agent"),
            (format!("{key}@host:7471"), "`host:7471` is not the address of an agent"),
            (format!("{key}@0.0.0.0:7471"), "is not the address of an agent"),
            (format!("{key}@10.0.0.2:0"), "is not the address of an agent"),
            (format!("{key}@10.0.0.2:7471,10.0.0.0/33"), "`10.0.0.0/33` is not a network"),
            (format!("{key}@10.0.0.2:7471,"), "`` is not a network"),
        ] {
            let error = text.parse::<Peer>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn file_has_a_peer_a_line_and_comments() {
        let keys = [key(), key()];
        let text = format!(
            "# the cluster\n\n{} 10.0.0.2:7471 # two\n  {}\t10.0.0.3:7471 10.1.0.0/16 10.2.0.0/16\n",
            keys[0], keys[1]
        );
        let peers = lines(&text).unwrap();
        assert_eq!(peers.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 4]);
        assert_eq!([peers[0].1.key, peers[1].1.key], keys);
        assert_eq!([peers[0].1.networks.len(), peers[1].1.networks.len()], [1, 2]);
    }

    #[test]
    fn mistake_in_a_file_is_named_with_its_line() {
        let key = key();
        for (line, said) in [
            (format!("{key}"), "line 2: expected a public key, IP:PORT"),
            (format!("{key}@10.0.0.2:7471"), "line 2: expected a public key, IP:PORT"),
            ("abc 10.0.0.2:7471".to_owned(), "line 2: `abc`: expected a key"),
            (
                format!("{key} 10.0.0.2:70000"),
                "line 2: `10.0.0.2:70000` is not the address of an agent",
            ),
            (format!("{key} 10.0.0.2:7471 10.0/16"), "line 2: `10.0/16` is not a network"),
        ] {
            let error = lines(&format!("# first\n{line}\n")).unwrap_err().to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_more_than_refused(text in "\\PC{0,200}") {
            let _ = text.parse::<Peer>();
            let _ = lines(&text);
        }
    }
}
