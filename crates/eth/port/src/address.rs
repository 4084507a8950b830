//! Addresses of frames' senders and receivers.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The address of a port. The port's kind determines the variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Address {
    /// An Ethernet address.
    Mac([u8; 6]),
    /// An Internet address and a UDP port.
    Udp(SocketAddr),
}

impl Address {
    /// Returns the address in VIA's form. An Ethernet address has six bytes. An Internet address has four or sixteen
    /// bytes, followed by the two bytes of the UDP port.
    pub fn host(&self) -> Vec<u8> {
        match self {
            Address::Mac(mac) => mac.to_vec(),
            Address::Udp(SocketAddr::V4(at)) => {
                [&at.ip().octets()[..], &at.port().to_be_bytes()].concat()
            }
            Address::Udp(SocketAddr::V6(at)) => {
                [&at.ip().octets()[..], &at.port().to_be_bytes()].concat()
            }
        }
    }

    /// Converts VIA's form into an address of the same kind as this one. A port reaches only addresses of its own kind.
    /// Returns `None` if the bytes are no such address.
    pub fn of_host(&self, host: &[u8]) -> Option<Address> {
        Some(match self {
            Address::Mac(_) => Address::Mac(host.try_into().ok()?),
            Address::Udp(SocketAddr::V4(_)) => {
                let &[a, b, c, d, high, low] = host else { return None };
                Address::Udp((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])).into())
            }
            Address::Udp(SocketAddr::V6(own)) => {
                let (ip, port) = host.split_first_chunk::<16>()?;
                let port = u16::from_be_bytes(port.try_into().ok()?);
                let scope = own.scope_id();
                Address::Udp(SocketAddrV6::new(Ipv6Addr::from(*ip), port, 0, scope).into())
            }
        })
    }

    /// Returns the address as three numbers, for memory that two processes share.
    pub(crate) fn words(&self) -> [u64; 3] {
        let (kind, port, scope, bytes) = match self {
            Address::Mac([a, b, c, d, e, f]) => {
                (MAC, 0, 0, [*a, *b, *c, *d, *e, *f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            Address::Udp(SocketAddr::V4(at)) => {
                let [a, b, c, d] = at.ip().octets();
                (V4, at.port(), 0, [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            Address::Udp(SocketAddr::V6(at)) => (V6, at.port(), at.scope_id(), at.ip().octets()),
        };
        let bytes = u128::from_le_bytes(bytes);
        [kind | u64::from(port) << 16 | u64::from(scope) << 32, bytes as u64, (bytes >> 64) as u64]
    }

    /// Converts three numbers into an address; `None` if they are no address.
    pub(crate) fn of_words([head, low, high]: [u64; 3]) -> Option<Address> {
        let bytes = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        let [a, b, c, d, e, f, ..] = bytes;
        let (port, scope) = ((head >> 16) as u16, (head >> 32) as u32);
        Some(match head & 0xffff {
            MAC => Address::Mac([a, b, c, d, e, f]),
            V4 => Address::Udp((Ipv4Addr::new(a, b, c, d), port).into()),
            V6 => Address::Udp(SocketAddrV6::new(Ipv6Addr::from(bytes), port, 0, scope).into()),
            _ => return None,
        })
    }
}

const MAC: u64 = 1;
const V4: u64 = 2;
const V6: u64 = 3;

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Mac([a, b, c, d, e, g]) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            Address::Udp(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(text: &str) -> Address {
        Address::Udp(text.parse().unwrap())
    }

    #[test]
    fn addresses_are_bytes_to_via() {
        for (address, host) in [
            (Address::Mac([2, 0, 0, 0, 0, 1]), &[2, 0, 0, 0, 0, 1][..]),
            (udp("10.0.0.1:7000"), &[10, 0, 0, 1, 0x1b, 0x58]),
            (udp("[::1]:7000"), &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x1b, 0x58]),
        ] {
            assert_eq!(address.host(), host);
            assert_eq!(address.of_host(host), Some(address));
            assert_eq!(address.of_host(&host[1..]), None);
        }
    }

    #[test]
    fn addresses_are_numbers_in_shared_memory() {
        let scoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7000, 0, 3).into();
        for address in
            [Address::Mac([2, 9, 8, 7, 6, 1]), udp("10.0.0.1:7000"), Address::Udp(scoped)]
        {
            assert_eq!(Address::of_words(address.words()), Some(address));
        }
        assert_eq!(Address::of_words([0, 1, 2]), None);
        assert_eq!(Address::of_words([4, 1, 2]), None);
    }
}
