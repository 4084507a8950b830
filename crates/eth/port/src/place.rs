//! Where a port is to be.

use crate::agent::{Agent, said};
use crate::packet::{self, Packet};
use crate::udp::{self, Udp};
use crate::xdp::{self, Xdp};
use crate::{Address, OpenError, Port};
use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;

/// What a port is on.
///
/// As text, for VIPL's device names and on command lines: `udp:192.168.1.7:7000`, `udp:[fe80::1]:7000`, `eth:eth0`,
/// `xdp:eth0`, `agent:lan0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A UDP socket with that address of this host's; port 0 is any that is free. For every user.
    Udp(SocketAddr),
    /// That Ethernet device, by packet sockets. It needs `CAP_NET_RAW`.
    Device(String),
    /// That Ethernet device, by `AF_XDP`. It needs `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF`.
    Xdp(String),
    /// The agent of that name, which has one of the others and serves this user.
    Agent(String),
}

/// A port that has been opened.
pub struct Opened {
    /// The port.
    pub port: Box<dyn Port + Send>,
    /// Its address.
    pub own: Address,
    /// Whether its link finds corrupt frames by itself. UDP has a checksum of its own, as TCP has, which the kernel or the card
    /// looks at. An Ethernet frame's is made anew by each switch, which may damage the frame before it does that.
    pub link_checks: bool,
    /// Bytes of a frame that its network takes. The port takes longer ones where it was asked to.
    pub sure: usize,
}

/// What a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A NIC, which finds out what each path takes, and says when it sleeps: frames may be as long as UDP has them at most, and busy
    /// peers get sockets of their own.
    Nic,
    /// The frames of others, which are as long as the network takes them.
    Switch,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opened({})", self.own)
    }
}

impl Place {
    /// Opens a port there.
    ///
    /// # Errors
    /// [`OpenError`].
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

/// The text names no place.
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
                // Peers are to be told where the NIC is.
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
