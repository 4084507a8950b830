//! Addresses of a NIC's peers.

use core::net::SocketAddr;
use core::str::FromStr;
use sovia_port::Address;

/// The address of another host's NIC.
///
/// The text form: `udp:192.168.1.7:7000`, `udp:[fe80::1]:7000`, or `mac:02:00:00:00:00:01` for a NIC on an Ethernet
/// device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station(Address);

/// The text is no valid station.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not the place of another NIC: expected udp:ADDRESS:PORT, or mac:XX:XX:XX:XX:XX:XX of its Ethernet device"
)]
pub struct BadStation(String);

impl Station {
    /// Returns the host part of the station's VIA addresses.
    pub fn host(&self) -> Vec<u8> {
        self.0.host()
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

/// Parses a byte of one or two hexadecimal digits.
fn hex(text: &str) -> Option<u8> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits { u8::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
