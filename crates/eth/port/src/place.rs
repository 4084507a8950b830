//! Names of ports.

use crate::agent::{Agent, said};
use crate::packet::{self, Packet};
use crate::udp::{self, Udp};
use crate::xdp::{self, Xdp};
use crate::{Address, OpenError, Port};
use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;

/// The kind and the name of a port.
///
/// The text form, for VIPL's device names and for command lines: `udp:192.168.1.7:7000`, `udp:[fe80::1]:7000`,
/// `eth:eth0`, `xdp:eth0`, `agent:lan0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A UDP socket with this address of this host. Port 0 selects a free port. Needs no privilege.
    Udp(SocketAddr),
    /// This Ethernet device, through packet sockets. Needs `CAP_NET_RAW`.
    Device(String),
    /// This Ethernet device, through `AF_XDP`. Needs `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF`.
    Xdp(String),
    /// The agent with this name, which must serve this user.
    Agent(String),
}

/// An open port.
pub struct Opened {
    /// The port.
    pub port: Box<dyn Port + Send>,
    /// The address of the port.
    pub own: Address,
    /// Set if the link detects corrupt frames. UDP has an end-to-end checksum, which the kernel or the network card
    /// checks, as for TCP. In contrast, each switch computes a new checksum for an Ethernet frame, and may have
    /// corrupted the frame before.
    pub link_checks: bool,
    /// Length of a frame that the network certainly carries. The port itself may accept longer frames.
    pub sure: usize,
}

/// The purpose of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A NIC. It measures which frame length each path carries, and announces its sleep. Therefore frames may have
    /// UDP's maximum length, and busy peers get their own sockets.
    Nic,
    /// A switch for frames of programs. The frames are as long as the network carries.
    Switch,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opened({})", self.own)
    }
}

impl Place {
    /// Opens the port.
    ///
    /// # Errors
    /// Returns an [`OpenError`].
    pub fn open(&self, purpose: Use) -> Result<Opened, OpenError> {
        let opened = |port: Box<dyn Port + Send>, own, link_checks| {
            let sure = port.frame_max();
            Opened { port, own, link_checks, sure }
        };
        Ok(match self {
            Place::Udp(own) => {
                let mut port = Udp::open(*own)?;
                let (own, sure) = (Address::Udp(port.own()), port.frame_max());
                if purpose == Use::Nic {
                    port.set_frame_max(udp::FRAME_MAX);
                    port.connect_busy_peers()?;
                }
                Opened { sure, ..opened(Box::new(port), own, true) }
            }
            Place::Device(device) => {
                let port = Packet::open(&packet::Config::new(device))?;
                let own = Address::Mac(port.own());
                opened(Box::new(port), own, false)
            }
            Place::Xdp(device) => {
                let port = Xdp::open(&xdp::Config::new(device))?;
                let own = Address::Mac(port.own());
                opened(Box::new(port), own, false)
            }
            Place::Agent(name) => {
                let port = Agent::open(name)?;
                let (own, link_checks) = (port.own(), port.link_checks());
                opened(Box::new(port), own, link_checks)
            }
        })
    }
}

/// The text is no valid place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a place for a NIC: expected udp:ADDRESS:PORT with an address of this host, eth:DEVICE, xdp:DEVICE, or agent:NAME"
)]
pub struct BadPlace(String);

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Place, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        match text.split_once(':').ok_or_else(bad)? {
            ("udp", address) => {
                let address: SocketAddr = address.parse().map_err(|_| bad())?;
                // Peers must learn a concrete address of the NIC.
                if address.ip().is_unspecified() || address.ip().is_multicast() {
                    return Err(bad());
                }
                Ok(Place::Udp(address))
            }
            ("eth", device) if !device.is_empty() => Ok(Place::Device(device.to_owned())),
            ("xdp", device) if !device.is_empty() => Ok(Place::Xdp(device.to_owned())),
            ("agent", name) if said::socket_of(name).is_some() => Ok(Place::Agent(name.to_owned())),
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
            Place::Agent(name) => write!(f, "agent:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in
            ["udp:10.0.0.1:7000", "udp:[fe80::1]:7000", "eth:veth0", "xdp:veth0", "agent:lan-0"]
        {
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
            "agent:",
            "agent:a/b",
        ] {
            assert_eq!(text.parse::<Place>(), Err(BadPlace(text.to_owned())));
        }
    }
}
