//! Addresses in 24 bytes, to keep the state of a peer small.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use sovia_port::Address;

/// An [`Address`], packed: kind, port, scope, and the address itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Whereabouts([u8; 24]);

impl Whereabouts {
    /// Checks bytes from another process; `None` if they are no address.
    pub fn read(bytes: [u8; 24]) -> Option<Whereabouts> {
        let told = Whereabouts(bytes);
        // Each address has exactly one encoding.
        (Whereabouts::from(&Address::from(told)) == told).then_some(told)
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> [u8; 24] {
        self.0
    }
}

const _: () = assert!(size_of::<sovia_emp::Peer<Whereabouts>>() <= 64);

const MAC: u8 = 1;
const V4: u8 = 2;
const V6: u8 = 3;

impl From<&Address> for Whereabouts {
    fn from(address: &Address) -> Whereabouts {
        let mut packed = [0; 24];
        let (kind, port, scope, bytes): (u8, u16, u32, &[u8]) = match address {
            Address::Mac(mac) => (MAC, 0, 0, mac),
            Address::Udp(SocketAddr::V4(at)) => (V4, at.port(), 0, &at.ip().octets()),
            Address::Udp(SocketAddr::V6(at)) => (V6, at.port(), at.scope_id(), &at.ip().octets()),
        };
        packed[0] = kind;
        packed[2..4].copy_from_slice(&port.to_be_bytes());
        packed[4..8].copy_from_slice(&scope.to_be_bytes());
        packed[8..8 + bytes.len()].copy_from_slice(bytes);
        Whereabouts(packed)
    }
}

impl From<Whereabouts> for Address {
    fn from(Whereabouts(packed): Whereabouts) -> Address {
        let [kind, _, high, low, s0, s1, s2, s3, bytes @ ..] = packed;
        let port = u16::from_be_bytes([high, low]);
        let [a, b, c, d, e, f, ..] = bytes;
        match kind {
            MAC => Address::Mac([a, b, c, d, e, f]),
            V4 => Address::Udp((Ipv4Addr::new(a, b, c, d), port).into()),
            _ => {
                let scope = u32::from_be_bytes([s0, s1, s2, s3]);
                Address::Udp(SocketAddrV6::new(Ipv6Addr::from(bytes), port, 0, scope).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unpacked_as_they_were_packed() {
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 7000, 0, 3).into();
        for address in [
            Address::Mac([2, 9, 8, 7, 6, 1]),
            Address::Udp("10.0.0.1:7000".parse().unwrap()),
            Address::Udp("[::1]:7000".parse().unwrap()),
            Address::Udp(scoped),
        ] {
            assert_eq!(Address::from(Whereabouts::from(&address)), address);
            let bytes = Whereabouts::from(&address).bytes();
            assert_eq!(Whereabouts::read(bytes), Some(Whereabouts(bytes)));
        }
        for at in [0, 1] {
            let mut bytes = Whereabouts::from(&Address::Mac([2; 6])).bytes();
            bytes[at] = 9;
            assert_eq!(Whereabouts::read(bytes), None);
        }
        assert_eq!(Whereabouts::read([0; 24]), None);
    }
}
