//! What `sovia agent` does: it vouches for two programs of a host that have the two ends of one connection and cannot see
//! each other (`vouch`), or is a NIC in software, in a process of its own, or a switch, which shares a port.
//!
//! **The NIC** stands between the programs of its host and the NICs of other hosts. With each program it shares a segment, whose
//! other side a process of the same host would have ([`via_shm`]); what either program publishes there is
//! reflected in the segment of the other ([`sovia_reflect`]). Each two NICs speak over a channel that loses and reorders
//! nothing ([`sovia_link`]), whatever happens to its frames.
//!
//! - `program`: a program, its segment, and how it introduces itself;
//! - `connection`: one VI, from its request to its end; `wire`: what the NICs say to each other, and `bundle`: of which
//!   several travel together;
//! - `hosts`: how agents of different hosts know each other, by keys; `numbers`: how they know that two sockets are the ends of one
//!   connection; `privilege`: what a NIC gives up before it hears a frame;
//! - `orders`: what its owner asks of it, by signals; `counted`: what it tells of frames;
//! - `port`: where frames go: UDP, or, for tests within a host, a Unix datagram socket;
//! - `nic`: what is done when something comes; `closer`: closes what programs should not have sent; `complaints`: what is said of them.
//!
//! **Packet filters** that accelerated connections bypass are watched for programs that respect them ([`filters`]).
//!
//! **The switch** (`switch`) owns a device, and passes frames between it and the NICs of native VIs in programs of this host.
//!
//! **What outlives what.** What a program has put on a VI lies in the segment, so it arrives though the program is
//! killed at once: the NIC reads it there, and tells the far end only then that nothing more comes. A fork, an exec
//! and a passed descriptor concern the program alone, as with a peer of its own host. If a NIC dies, its
//! programs' connections go on on TCP, with what their own segments have (`sovia_proto::failover`).

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

/// A NIC's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// By what name programs find it.
    pub name: String,
    /// Where other NICs are.
    pub way: Way,
    /// What limits its frames, where a network carries them; within a host nothing does.
    pub control: Control,
    /// What happens to its frames that go by the port.
    pub faults: Faults,
    /// What carries frames to agents of other hosts that have the like.
    pub fabric: Fabric,
}

/// A NIC by which frames go to agents of other hosts that have one of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fabric {
    /// The NIC for RDMA at the address at which the agent listens, if there is one.
    #[default]
    Auto,
    /// None: frames go by UDP.
    None,
    /// That one, as [`sovia_nic::AnyNic::open_at`] names it, or without its address for the one at which the agent listens.
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

/// A switch's configuration.
#[derive(Debug, Clone)]
pub struct SwitchConfig {
    /// By what name programs find it.
    pub name: String,
    /// What its port is on.
    pub place: Place,
    /// The users whose programs it serves.
    pub users: Vec<u32>,
    /// The user and the group that it becomes when its port is open, if it is root.
    pub user: Option<(u32, u32)>,
}

/// Where other NICs are.
#[derive(Debug, Clone)]
pub enum Way {
    /// On this host, for tests: frames are Unix datagrams, and any process that may use its file is believed to be it.
    Local {
        /// The file name of this NIC's port.
        port: PathBuf,
        /// The file name of the other NIC's port.
        peer: PathBuf,
    },
    /// On other hosts: the agents know each other by their keys, and frames are UDP datagrams.
    Network(HostsConfig),
}

/// Why a NIC cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its name cannot be had.
    #[error("cannot accept programs as the NIC {0:?}: {why}", why = sovia_sys::described(*.1))]
    Name(String, sovia_sys::Errno),
    /// Its port cannot be opened.
    #[error("cannot open the port {0:?}: {1}")]
    Local(PathBuf, std::io::Error),
    /// The other agent's connections cannot be accepted.
    #[error("cannot listen at {0}: {1}")]
    Listen(core::net::SocketAddr, std::io::Error),
    /// Its UDP port cannot be opened.
    #[error("cannot receive frames at {0}: {1}")]
    Network(core::net::SocketAddr, sovia_port::OpenError),
    /// The NIC that carries frames cannot be opened.
    #[error("cannot use the NIC {0}: {1}")]
    Fabric(String, String),
    /// The kernel shows it no sequence numbers.
    #[error(
        "cannot read the sequence numbers that prove that two sockets are the ends of one connection: {}. \
         The agent needs CAP_BPF and CAP_NET_ADMIN, and Linux 5.8 or later", sovia_sys::described(*.0))]
    Numbers(sovia_sys::Errno),
    /// It cannot do without privileges that it has.
    #[error("cannot give up the privileges that the agent needed to start: {}", sovia_sys::described(*.0))]
    Privileges(sovia_sys::Errno),
    /// A switch has a port of its own.
    #[error(
        "cannot share {0}: expected a port of this agent, as udp:ADDRESS:PORT, eth:DEVICE or xdp:DEVICE"
    )]
    Place(Place),
    /// The port of a switch cannot be opened.
    #[error("cannot use {0}: {1}")]
    Port(Place, sovia_port::OpenError),
    /// The frames of a switch's port are longer than programs' rings can hold.
    #[error("cannot share {0}: the frames of this port, up to {1} bytes, are too long")]
    FrameMax(Place, usize),
    /// The port of a switch works no more.
    #[error("cannot go on with {0}: the device is gone")]
    Gone(Place),
    /// The kernel refuses what every NIC needs.
    #[error("cannot wait for events: {}", sovia_sys::described(*.0))]
    Kernel(sovia_sys::Errno),
}

/// A NIC that programs can find.
#[derive(Debug)]
pub struct Nic(nic::Nic);

impl Nic {
    /// Opens it: from here on programs and frames that come are not lost.
    ///
    /// # Errors
    /// [`Error`] says what is missing.
    pub fn open(config: &Config) -> Result<Nic, Error> {
        nic::Nic::open(config).map(Nic)
    }

    /// Serves until its owner orders it to end: other agents are told that it does.
    ///
    /// # Errors
    /// The kernel does not let it.
    pub fn serve(mut self, orders: Option<&Orders>) -> Result<(), Error> {
        self.0.serve(orders)
    }
}

/// A switch that programs can find.
#[derive(Debug)]
pub struct Switch(switch::Switch);

impl Switch {
    /// Opens it, and gives up all privileges: the calling thread is the only one of its process. From here on programs that come
    /// are not lost.
    ///
    /// # Errors
    /// [`Error`] says what is missing.
    pub fn open(config: &SwitchConfig) -> Result<Switch, Error> {
        switch::Switch::open(config).map(Switch)
    }

    /// The address at which others reach its programs.
    pub fn own(&self) -> Address {
        self.0.own()
    }

    /// Serves until its owner orders it to end: its programs' peers are told as when those end.
    ///
    /// # Errors
    /// Its port is gone, or the kernel does not let it.
    pub fn serve(mut self, orders: Option<&Orders>) -> Result<(), Error> {
        self.0.serve(orders)
    }
}
