//! Where a NIC is, and where its peers are.

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;
use sovia_port::Address;

/// What a NIC's port is on.
///
/// As text, for VIPL's device names and on command lines: `udp:192.168.1.7:7000`, `udp:[fe80::1]:7000`, `eth:eth0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A UDP socket with that address of this host's; port 0 is any that is free. For every user.
    Udp(SocketAddr),
    /// That Ethernet device, by packet sockets. It needs `CAP_NET_RAW`.
    Device(String),
}

/// The text names no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no place for a NIC: udp:ADDRESS:PORT with an address of this host's, or eth:DEVICE"
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
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Udp(address) => write!(f, "udp:{address}"),
            Place::Device(device) => write!(f, "eth:{device}"),
        }
    }
}

/// The port that has an address, as VIA writes it; `None` if it is none, or not written as this crate writes it: a NIC has one
/// name.
pub(crate) fn address_of(host: &[u8]) -> Option<Address> {
    let text = core::str::from_utf8(host).ok()?;
    let address = match text.parse() {
        Ok(address) => Address::Udp(address),
        Err(_) => Address::Mac(mac_of(text)?),
    };
    (address.to_string() == text).then_some(address)
}

fn mac_of(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in ["udp:10.0.0.1:7000", "udp:[fe80::1]:7000", "eth:veth0"] {
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
            "tcp:x",
        ] {
            assert_eq!(text.parse::<Place>(), Err(BadPlace(text.to_owned())));
        }
    }

    #[test]
    fn an_address_has_one_form() {
        for text in ["10.0.0.1:7000", "[fe80::1]:7000", "02:00:00:00:00:0a"] {
            assert_eq!(address_of(text.as_bytes()).unwrap().to_string(), text);
        }
        for text in [
            "10.0.0.1",
            "[FE80::1]:7000",
            "02:00:00:00:00:0A",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "+2:00:00:00:00:01",
        ] {
            assert_eq!(address_of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(address_of(&[0xff; 6]), None);
    }
}
