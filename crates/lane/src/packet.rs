//! Finds and checks the addresses of an IP packet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Source and destination address of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

/// Error for bytes that are not exactly one IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Returns the addresses of a packet. `packet` must be exactly as long as its header says.
pub(crate) fn addresses(packet: &[u8]) -> Result<Addresses, Malformed> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => v4(packet),
        Some(6) => v6(packet),
        _ => Err(Malformed),
    }
}

fn v4(packet: &[u8]) -> Result<Addresses, Malformed> {
    let header: &[u8; 20] = packet.first_chunk().ok_or(Malformed)?;
    let header_len = usize::from(header[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header_len < header.len() || total < header_len || total != packet.len() {
        return Err(Malformed);
    }
    let at = |i: usize| Ipv4Addr::new(header[i], header[i + 1], header[i + 2], header[i + 3]);
    Ok(Addresses { source: at(12).into(), destination: at(16).into() })
}

fn v6(packet: &[u8]) -> Result<Addresses, Malformed> {
    let header: &[u8; 40] = packet.first_chunk().ok_or(Malformed)?;
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header.len() + payload != packet.len() {
        return Err(Malformed);
    }
    let at = |i: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[i..i + 16]);
        Ipv6Addr::from(octets)
    };
    Ok(Addresses { source: at(8).into(), destination: at(24).into() })
}

/// Returns true if `destination` is a multicast or broadcast address.
pub(crate) fn is_for_many(destination: IpAddr) -> bool {
    destination.is_multicast() || destination == IpAddr::V4(Ipv4Addr::BROADCAST)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes a packet with these addresses and this payload.
    pub(crate) fn packet(source: IpAddr, destination: IpAddr, payload: &[u8]) -> Vec<u8> {
        let mut bytes = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 253, 0, 0];
                header[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
                header.extend(source.octets());
                header.extend(destination.octets());
                header
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut header = vec![0x60, 0, 0, 0, 0, 0, 253, 64];
                header[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
                header.extend(source.octets());
                header.extend(destination.octets());
                header
            }
            _ => panic!("two versions"),
        };
        bytes.extend(payload);
        bytes
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_those_of_the_header() {
        for [source, destination] in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
            let (source, destination) = (ip(source), ip(destination));
            for payload in [&b""[..], b"text"] {
                let bytes = packet(source, destination, payload);
                assert_eq!(addresses(&bytes), Ok(Addresses { source, destination }));
                assert_eq!(addresses(&[&bytes[..], b"x"].concat()), Err(Malformed), "too long");
                for len in 0..bytes.len() {
                    assert_eq!(addresses(&bytes[..len]), Err(Malformed), "{len} bytes of it");
                }
            }
        }
    }

    #[test]
    fn header_longer_than_its_packet_is_malformed() {
        let mut bytes = packet(ip("10.0.0.1"), ip("10.0.0.2"), b"");
        for words in (0..=0xf).filter(|words| *words != 5) {
            bytes[0] = 0x40 | words;
            assert_eq!(addresses(&bytes), Err(Malformed), "{words}");
        }
    }

    #[test]
    fn multicasts_and_broadcasts_are_for_many() {
        for text in ["224.0.0.1", "239.1.2.3", "255.255.255.255", "ff02::1"] {
            assert!(is_for_many(ip(text)), "{text}");
        }
        for text in ["10.0.0.1", "fe80::1", "127.0.0.1"] {
            assert!(!is_for_many(ip(text)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_malformed(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let version = bytes.first().map(|byte| byte >> 4);
            if let Ok(found) = addresses(&bytes) {
                prop_assert_eq!(version, Some(if found.source.is_ipv4() { 4 } else { 6 }));
            }
        }
    }
}
