//! The network for a part between two hosts, and an end's use of it.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};
use sovia_nic::AnyNic;
use via_eth::{Config, Place};

use crate::measure::bench::task::{Role, Wait};

/// libfabric's provider between hosts.
const FABRIC: &str = "tcp;ofi_rxm";

/// Carrier of a NIC's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::measure::bench) enum Port {
    /// A UDP socket
    Udp,
    /// Packet sockets on the Ethernet device
    Eth,
    /// AF_XDP on the Ethernet device
    Xdp,
    /// libfabric, over TCP
    Ofi,
}

impl Port {
    pub(in crate::measure::bench) const ALL: [Self; 4] =
        [Self::Udp, Self::Eth, Self::Xdp, Self::Ofi];

    /// Returns the port's name, as in a NIC's place.
    pub(in crate::measure::bench) fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Eth => "eth",
            Self::Xdp => "xdp",
            Self::Ofi => "ofi",
        }
    }
}

/// A network between two hosts, and the port that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::measure::bench) struct Net {
    pub(in crate::measure::bench) link: LinkKind,
    /// Port of the VIs; `None` for TCP, and for lanes over VIs in shared memory.
    pub(in crate::measure::bench) port: Option<Port>,
}

/// The Ethernet between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::measure::bench) struct LinkKind {
    pub(in crate::measure::bench) mtu: u32,
    /// True if the kernel passes segments of up to 64 KB to the devices, which cut them, as today's cards do. False if
    /// it passes single packets, as with the papers' cards.
    pub(in crate::measure::bench) offloads: bool,
}

/// Name of each host's Ethernet device.
pub(in crate::measure::bench) const DEVICE: &str = "way";

/// Returns the Internet address of an end's host.
pub(in crate::measure::bench) fn address(role: Role) -> Ipv4Addr {
    match role {
        Role::Requester => Ipv4Addr::new(10, 91, 8, 1),
        Role::Responder => Ipv4Addr::new(10, 91, 8, 2),
    }
}

/// Moves the calling thread to the network namespace at a path.
pub(in crate::measure::bench) fn enter(namespace: &str) -> anyhow::Result<()> {
    let file = File::open(namespace).with_context(|| format!("cannot open {namespace}"))?;
    setns(file, CloneFlags::CLONE_NEWNET).context("cannot enter a network namespace")
}

/// Opens an end's NIC. With `Wait::Sleep` its waiting calls sleep at once. Otherwise they poll for a while first.
pub(super) fn open(port: Port, role: Role, wait: Wait) -> anyhow::Result<AnyNic> {
    let place = match port {
        Port::Udp => Place::Udp(SocketAddr::new(IpAddr::V4(address(role)), 0)),
        Port::Eth => Place::Device(DEVICE.to_owned()),
        Port::Xdp => Place::Xdp(DEVICE.to_owned()),
        Port::Ofi => {
            let place = format!("{FABRIC}@{}", address(role)).parse()?;
            let mut config = via_ofi::Config::new(place);
            if wait == Wait::Sleep {
                config.spin = Duration::ZERO;
            }
            return Ok(AnyNic::Ofi(config.open()?));
        }
    };
    let mut config = Config::new(place);
    if wait == Wait::Sleep {
        config.spin = Duration::ZERO;
    }
    Ok(AnyNic::Eth(config.open()?))
}
