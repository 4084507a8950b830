//! The processes that `sovia agent` runs: a NIC in software, a switch that shares a port, or a helper for programs
//! that cannot see each other. The helper confirms to two programs of a host that they hold the two ends of one
//! connection (`vouch`).
//!
//! **The NIC** connects the programs of its host with the NICs of other hosts. The NIC shares a segment with each
//! program. In this segment, the NIC takes the side that a peer process on the same host would have ([`sovia_ring`]).
//! The two NICs of a connection copy what each program publishes to the segment of the other program
//! ([`sovia_reflect`]). Between two NICs there is a reliable and ordered channel ([`sovia_link`]), even if the
//! network loses frames.
//!
//! - `program`: a program, its segment, and its introduction.
//! - `connection`: one VI, from its request to its end. `wire`: messages between NICs. `bundle`: several messages in
//!   one.
//! - `hosts`: agents of different hosts authenticate each other by keys.
//! - `numbers`: sequence numbers that prove that two sockets are the ends of one connection.
//! - `privilege`: gives up privileges before the NIC receives the first frame.
//! - `orders`: signals from the owner. `counted`: a report about frames for the owner.
//! - `port`: carries frames, by UDP or, in tests within a host, by a Unix datagram socket.
//! - `nic`: reacts to events. `closer`: closes descriptors that programs should not have sent. `complaints`: reports
//!   about programs.
//!
//! **Packet filters** that accelerated connections would bypass are watched on behalf of programs that respect them
//! ([`filters`]).
//!
//! **The switch** (`switch`) owns a device. The switch passes frames between the device and the NICs of native VIs in
//! programs of this host.
//!
//! **Deaths.** Bytes that a program has put on a VI are in the segment. They arrive even if the program is killed at
//! once. The NIC first reads them from the segment, and only then reports the end to the remote NIC. A fork, an exec
//! or a passed descriptor concerns only the program, as with a peer on the same host. If a NIC dies, its programs'
//! connections continue on TCP, with the data in their own segments (`sovia_proto::failover`).

#![forbid(unsafe_code)]

mod bundle;
mod closer;
mod complaints;
mod connection;
mod counted;
pub mod filters;
#[cfg(fuzzing)]
pub mod fuzzing;
mod hosts;
mod in_flight;
mod nic;
mod numbers;
mod orders;
mod port;
mod privilege;
mod program;
mod switch;
mod vouch;
mod wire;

pub use hosts::{
    Config as HostsConfig, Conflict, KeyError, Named, Peer, PeerError, Peers, PublicKey, SecretKey,
    read_peers,
};
pub use orders::Orders;
pub use port::Faults;
pub use sovia_link::Control;
pub use sovia_port::{Address, Place};
pub use sovia_proto::agent::PATH;
use std::path::PathBuf;
pub use vouch::{Error as VouchError, Voucher, speak};

/// Configuration of a NIC.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name by which programs find the NIC.
    pub name: String,
    /// Location of the other NICs.
    pub way: Way,
    /// Congestion control of frames on a network. Within a host, a fixed window is used instead.
    pub control: Control,
    /// Faults that tests inject into frames on the port.
    pub faults: Faults,
    /// NIC that carries frames to agents with a NIC of the same kind.
    pub fabric: Fabric,
}

/// Choice of the NIC that carries frames to agents with a NIC of the same kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fabric {
    /// The RDMA NIC at the address at which the agent listens, if there is one.
    #[default]
    Auto,
    /// No NIC: frames are sent by UDP.
    None,
    /// A NIC with a name for [`sovia_nic::AnyNic::open_at`]. Without an address, the NIC at the agent's own address.
    Nic(String),
}

impl core::str::FromStr for Fabric {
    type Err = core::convert::Infallible;

    fn from_str(text: &str) -> Result<Fabric, Self::Err> {
        Ok(match text {
            "auto" => Fabric::Auto,
            "none" => Fabric::None,
            name => Fabric::Nic(name.to_owned()),
        })
    }
}

/// Configuration of a switch.
#[derive(Debug, Clone)]
pub struct SwitchConfig {
    /// Name by which programs find the switch.
    pub name: String,
    /// Device or address of the switch's port.
    pub place: Place,
    /// Users whose programs the switch serves.
    pub users: Vec<u32>,
    /// User and group that the switch changes to after it has opened its port, if it runs as root.
    pub user: Option<(u32, u32)>,
}

/// Location of the other NICs.
#[derive(Debug, Clone)]
pub enum Way {
    /// On this host, for tests: frames are Unix datagrams. Any process that may use the other port's file counts as
    /// the other NIC.
    Local {
        /// File name of this NIC's port.
        port: PathBuf,
        /// File name of the other NIC's port.
        peer: PathBuf,
    },
    /// On other hosts: agents authenticate each other by keys, and frames are UDP datagrams.
    Network(HostsConfig),
}

/// Reason why a NIC or a switch cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is in use, or cannot be bound.
    #[error("cannot accept programs as the NIC {0}: {why}", why = sovia_sys::described(*.1))]
    Name(String, sovia_sys::Errno),
    /// The port cannot be opened.
    #[error("cannot open the port {}: {}", .0.display(), .1)]
    Local(PathBuf, std::io::Error),
    /// Connections of other agents cannot be accepted.
    #[error("cannot listen at {0}: {1}")]
    Listen(core::net::SocketAddr, std::io::Error),
    /// The UDP port cannot be opened.
    #[error("cannot receive frames at {0}: {1}")]
    Network(core::net::SocketAddr, sovia_port::OpenError),
    /// The NIC that carries frames cannot be opened.
    #[error("cannot use the NIC {0}: {1}")]
    Fabric(String, String),
    /// The kernel does not let the agent read sequence numbers.
    #[error(
        "cannot read the sequence numbers that prove that two sockets are the ends of one connection: {}. \
         The agent needs CAP_BPF and CAP_NET_ADMIN, and Linux 5.8 or later", sovia_sys::described(*.0))]
    Numbers(sovia_sys::Errno),
    /// The agent cannot give up a privilege.
    #[error("cannot give up the privileges that the agent needed to start: {}", sovia_sys::described(*.0))]
    Privileges(sovia_sys::Errno),
    /// The switch needs a port of its own.
    #[error(
        "cannot share {0}: expected a port of this agent, as udp:ADDRESS:PORT, eth:DEVICE or xdp:DEVICE"
    )]
    Place(Place),
    /// The switch's port cannot be opened.
    #[error("cannot use {0}: {1}")]
    Port(Place, sovia_port::OpenError),
    /// The frames of the switch's port are too long for programs' rings.
    #[error("cannot share {0}: the frames of this port, up to {1} bytes, are too long")]
    FrameMax(Place, usize),
    /// The switch's port has failed.
    #[error("cannot go on with {0}: the device is gone")]
    Gone(Place),
    /// The kernel refuses a call that every NIC needs.
    #[error("cannot wait for events: {}", sovia_sys::described(*.0))]
    Kernel(sovia_sys::Errno),
}

/// A NIC that programs can find.
#[derive(Debug)]
pub struct Nic(nic::Nic);

impl Nic {
    /// Opens a NIC. Programs and frames that arrive from now on wait until [`Nic::serve`] is called.
    ///
    /// # Errors
    /// [`Error`]: the reason why the NIC cannot serve.
    pub fn open(config: &Config) -> Result<Nic, Error> {
        nic::Nic::open(config).map(Nic)
    }

    /// Serves until the owner orders the NIC to end. Then notifies the other agents.
    ///
    /// # Errors
    /// The kernel refuses to wait for events.
    pub fn serve(mut self, orders: Option<&Orders>) -> Result<(), Error> {
        self.0.serve(orders)
    }
}

/// A switch that programs can find.
#[derive(Debug)]
pub struct Switch(switch::Switch);

impl Switch {
    /// Opens a switch and gives up all privileges. The calling thread must be the only one of its process. Programs
    /// that connect from now on wait until [`Switch::serve`] is called.
    ///
    /// # Errors
    /// [`Error`]: the reason why the switch cannot serve.
    pub fn open(config: &SwitchConfig) -> Result<Switch, Error> {
        switch::Switch::open(config).map(Switch)
    }

    /// Returns the address at which other hosts reach the switch's programs.
    pub fn own(&self) -> Address {
        self.0.own()
    }

    /// Serves until the owner orders the switch to end. Then notifies the peers of its programs, as if the programs
    /// had ended.
    ///
    /// # Errors
    /// The port is gone, or the kernel refuses to wait for events.
    pub fn serve(mut self, orders: Option<&Orders>) -> Result<(), Error> {
        self.0.serve(orders)
    }
}
