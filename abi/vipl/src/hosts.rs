//! Names of hosts, with the addresses of their NICs.
//!
//! A file of hosts has a line for each address, with the address and names. An address has one of two forms: an
//! Internet address and port, or hexadecimal bytes with colons between them. It has as many bytes as the NIC's own
//! address. `self` is this NIC's own address. The address may also be the last word, and `#` begins a comment:
//!
//! ```text
//! 02:5b:10:00:00:01  alpha alpha-san
//! self               node0 node1        # all on this host
//! ```

use core::net::{IpAddr, SocketAddr};
use sovia_nic::AnyNic;

/// The word for this NIC's own address.
const SELF: &str = "self";

/// Pairs of a host's name and an address, in the file's order. This host's own names come last.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hosts(Vec<(String, Box<[u8]>)>);

/// Error for an invalid line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoAddress {
    line: usize,
}

impl std::fmt::Display for NoAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: expected an address such as 02:5b:10:00:00:01, or `{SELF}`", self.line)
    }
}

impl Hosts {
    /// Returns the table of only this host: its name, the first part of the name, and `localhost`.
    pub(crate) fn of_this_host(own: &[u8]) -> Hosts {
        let mut hosts = Hosts(Vec::new());
        hosts.add_this_host(own);
        hosts
    }

    /// Reads the hosts in a file, and adds this host.
    ///
    /// # Errors
    /// [`NoAddress`].
    pub(crate) fn read(text: &str, own: &[u8]) -> Result<Hosts, NoAddress> {
        let mut hosts = Hosts(Vec::new());
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let parse = |word: &str| {
                if word == SELF { Some(own.into()) } else { parse(word, own.len()) }
            };
            let found = words.iter().enumerate().find_map(|(at, word)| Some((at, parse(word)?)));
            let (at, address) = found.ok_or(NoAddress { line: i + 1 })?;
            for (_, name) in words.iter().enumerate().filter(|(i, _)| *i != at) {
                hosts.0.push(((*name).into(), address.clone()));
            }
        }
        hosts.add_this_host(own);
        Ok(hosts)
    }

    fn add_this_host(&mut self, own: &[u8]) {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        let short = name.split('.').next().unwrap_or_default();
        for name in [name, short, "localhost"] {
            let known = |(other, address): &(String, Box<[u8]>)| {
                other.eq_ignore_ascii_case(name) && **address == *own
            };
            if !name.is_empty() && !self.0.iter().any(known) {
                self.0.push((name.into(), own.into()));
            }
        }
    }

    /// Returns the address number `index` of a host.
    pub(crate) fn address(&self, name: &str, index: usize) -> Option<&[u8]> {
        let own = self.0.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        own.map(|(_, address)| &**address).nth(index)
    }

    /// Returns the first name with an address.
    pub(crate) fn name(&self, address: &[u8]) -> Option<&str> {
        self.0.iter().find(|(_, other)| **other == *address).map(|(name, _)| name.as_str())
    }
}

/// Parses an address of exactly `len` bytes, because a program has room for no other length.
fn parse(word: &str, len: usize) -> Option<Box<[u8]>> {
    let byte = |text: &str| {
        let digits = matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_hexdigit());
        if digits { u8::from_str_radix(text, 16).ok() } else { None }
    };
    // An Internet address and a port, for NICs with such addresses.
    let internet = || {
        let at: SocketAddr = word.parse().ok()?;
        let ip = match at.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        Some([&ip[..], &at.port().to_be_bytes()].concat().into())
    };
    // An Internet address and a port, in the form of NICs on libfabric.
    let fabric = || AnyNic::host_of(&format!("ofi:any@{word}")).ok();
    let bytes = || word.split(':').map(byte).collect::<Option<Box<[u8]>>>();
    [bytes(), internet(), fabric()].into_iter().flatten().find(|address| address.len() == len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[u8] = &[2, 1];

    #[test]
    fn lines_have_an_address_and_names() {
        let text = "# all\n02:5b alpha a\n\nbeta 2:1 # last\nself node0 node1\n2:9 alpha\n";
        let hosts = Hosts::read(text, OWN).unwrap();
        assert_eq!(hosts.address("alpha", 0), Some(&[2, 0x5b][..]));
        assert_eq!(hosts.address("ALPHA", 1), Some(&[2, 9][..]));
        assert_eq!(hosts.address("alpha", 2), None);
        assert_eq!(hosts.address("node1", 0), Some(OWN));
        assert_eq!(hosts.name(OWN), Some("beta"));
        assert_eq!(hosts.name(&[7]), None);
        assert_eq!(hosts.address("localhost", 0), Some(OWN));
    }

    #[test]
    fn this_host_is_known_without_a_file() {
        let hosts = Hosts::of_this_host(OWN);
        assert_eq!(hosts.address("localhost", 0), Some(OWN));
        assert_eq!(hosts.address("localhost", 1), None);
        assert!(hosts.name(OWN).is_some());
    }

    #[test]
    fn an_internet_address_is_the_bytes_of_address_and_port() {
        let own = [10, 0, 0, 1, 0x1b, 0x58];
        let hosts = Hosts::read("10.0.0.2:7001 beta", &own).unwrap();
        assert_eq!(hosts.address("beta", 0), Some(&[10, 0, 0, 2, 0x1b, 0x59][..]));
        assert_eq!(Hosts::read("[::1]:7001 beta", &own), Err(NoAddress { line: 1 }));
    }

    #[test]
    fn line_without_an_address_is_an_error() {
        for text in ["x\ncafe bee\n", "x\n2:100 a", "x\n2:+1 a", "x\n: a", "x\n2:1:2 a", "x\n2 a"] {
            let text = text.replacen('x', "self me", 1);
            assert_eq!(Hosts::read(&text, OWN), Err(NoAddress { line: 2 }), "{text}");
        }
    }
}
