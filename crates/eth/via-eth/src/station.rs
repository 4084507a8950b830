//! Where a NIC is, and where its peers are.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::str::FromStr;
use sovia_link::wire::Checksum;
use sovia_port::Address;

/// What a NIC's port is on.
///
/// As text, for VIPL's device names and on command lines: `udp:192.168.1.7:7000`, `udp:[fe80::1]:7000`, `eth:eth0`,
/// `xdp:eth0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A UDP socket with that address of this host's; port 0 is any that is free. For every user.
    Udp(SocketAddr),
    /// That Ethernet device, by packet sockets. It needs `CAP_NET_RAW`.
    Device(String),
    /// That Ethernet device, by `AF_XDP`. It needs `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF`.
    Xdp(String),
}

impl Place {
    /// What finds damaged frames there. UDP has a checksum of its own, as TCP has, which the kernel or the card looks at.
    /// An Ethernet frame's is made anew by each switch, which may damage the frame before it does that.
    pub(crate) fn checksum(&self) -> Checksum {
        match self {
            Place::Udp(_) => Checksum::Link,
            Place::Device(_) | Place::Xdp(_) => Checksum::Crc,
        }
    }
}

/// The text names no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no place for a NIC: udp:ADDRESS:PORT with an address of this host's, eth:DEVICE, or xdp:DEVICE"
)]
pub struct BadPlace(String);

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Place, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        match text.split_once(':').ok_or_else(bad)? {
            ("udp", address) => {
                let address: SocketAddr = address.parse().map_err(|_| bad())?;
                // Peers are to be told where the NIC is.
                if address.ip().is_unspecified() || address.ip().is_multicast() {
                    return Err(bad());
                }
                Ok(Place::Udp(address))
            }
            ("eth", device) if !device.is_empty() => Ok(Place::Device(device.to_owned())),
            ("xdp", device) if !device.is_empty() => Ok(Place::Xdp(device.to_owned())),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Udp(address) => write!(f, "udp:{address}"),
            Place::Device(device) => write!(f, "eth:{device}"),
            Place::Xdp(device) => write!(f, "xdp:{device}"),
        }
    }
}

/// Where another host's NIC is, as others reach it.
///
/// As text: `udp:192.168.1.7:7000`, `udp:[fe80::1]:7000`, `mac:02:00:00:00:00:01` of a NIC on an Ethernet device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station(Address);

/// The text names no station.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no place of another NIC: udp:ADDRESS:PORT, or mac:XX:XX:XX:XX:XX:XX of its Ethernet device"
)]
pub struct BadStation(String);

impl Station {
    /// The host part of its addresses, as VIA has them.
    pub fn host(&self) -> Vec<u8> {
        host_of(&self.0)
    }
}

impl FromStr for Station {
    type Err = BadStation;

    fn from_str(text: &str) -> Result<Station, BadStation> {
        let bad = || BadStation(text.to_owned());
        match text.split_once(':').ok_or_else(bad)? {
            ("udp", address) => {
                let address: SocketAddr = address.parse().map_err(|_| bad())?;
                let ip = address.ip();
                if ip.is_unspecified() || ip.is_multicast() || address.port() == 0 {
                    return Err(bad());
                }
                Ok(Station(Address::Udp(address)))
            }
            ("mac", address) => {
                let mut mac = [0; 6];
                let mut parts = address.split(':');
                for byte in &mut mac {
                    let value = parts.next().filter(|part| part.len() <= 2).and_then(hex);
                    *byte = value.ok_or_else(bad)?;
                }
                let is_for_many = mac[0] & 1 != 0;
                if parts.next().is_some() || is_for_many || mac == [0; 6] {
                    return Err(bad());
                }
                Ok(Station(Address::Mac(mac)))
            }
            _ => Err(bad()),
        }
    }
}

/// A byte of one or two hexadecimal digits, and nothing else.
fn hex(text: &str) -> Option<u8> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits { u8::from_str_radix(text, 16).ok() } else { None }
}

/// An address as VIA has it: the six bytes of an Ethernet address; those of an Internet address, four or sixteen, and of a UDP
/// port.
pub(crate) fn host_of(address: &Address) -> Vec<u8> {
    match address {
        Address::Mac(mac) => mac.to_vec(),
        Address::Udp(SocketAddr::V4(at)) => {
            [&at.ip().octets()[..], &at.port().to_be_bytes()].concat()
        }
        Address::Udp(SocketAddr::V6(at)) => {
            [&at.ip().octets()[..], &at.port().to_be_bytes()].concat()
        }
    }
}

/// The address that those bytes are, for a NIC with the address `own`: a port reaches addresses of its own kind. `None` if they
/// are none.
pub(crate) fn address_of(host: &[u8], own: &Address) -> Option<Address> {
    Some(match own {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in ["udp:10.0.0.1:7000", "udp:[fe80::1]:7000", "eth:veth0", "xdp:veth0"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "udp",
            "udp:",
            "udp:10.0.0.1",
            "udp:0.0.0.0:7000",
            "udp:224.0.0.1:7",
            "eth:",
            "xdp:",
            "tcp:x",
        ] {
            assert_eq!(text.parse::<Place>(), Err(BadPlace(text.to_owned())));
        }
    }

    #[test]
    fn stations_are_what_their_nics_say_of_themselves() {
        let host = |text: &str| text.parse::<Station>().map(|station| station.host());
        assert_eq!(host("udp:10.0.0.1:7000"), Ok(vec![10, 0, 0, 1, 0x1b, 0x58]));
        assert_eq!(host("mac:02:5B:0:00:00:01"), Ok(vec![2, 0x5b, 0, 0, 0, 1]));
        for text in [
            "",
            "udp:10.0.0.1",
            "udp:10.0.0.1:0",
            "udp:0.0.0.0:7000",
            "eth:eth0",
            "mac:02:00:00:00:00",
            "mac:02:00:00:00:00:00:01",
            "mac:02:00:00:00:00:+1",
            "mac:ff:ff:ff:ff:ff:ff",
            "mac:00:00:00:00:00:00",
        ] {
            assert_eq!(host(text), Err(BadStation(text.to_owned())));
        }
    }

    #[test]
    fn addresses_are_bytes_to_via() {
        let udp = |text: &str| Address::Udp(text.parse().unwrap());
        for (address, host) in [
            (Address::Mac([2, 0, 0, 0, 0, 1]), &[2, 0, 0, 0, 0, 1][..]),
            (udp("10.0.0.1:7000"), &[10, 0, 0, 1, 0x1b, 0x58]),
            (udp("[::1]:7000"), &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x1b, 0x58]),
        ] {
            assert_eq!(host_of(&address), host);
            assert_eq!(address_of(host, &address), Some(address));
            assert_eq!(address_of(&host[1..], &address), None);
        }
    }
}
