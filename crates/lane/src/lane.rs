//! A lane: its configuration, and the start of its threads.

use crate::counters::{Counters, Counts};
use crate::credit::{RECEIVES, TOLD_MAX};
use crate::device::Device;
use crate::event::Event;
use crate::link::{DISCRIMINATOR, Link};
use crate::peer::Peer;
use crate::routes::{Overlap, Routes};
use crate::shared::{PeerPlace, Shared, lock};
use crate::{accept, incoming, outgoing};
use core::sync::atomic::{AtomicBool, AtomicU64};
use ipnet::IpNet;
use std::sync::{Arc, Mutex};
use via::error::CqError;
use via::{NetAddress, Nic, Vi};

/// Smallest MTU. Every IPv6 node accepts packets of this length.
pub const MTU_MIN: usize = 1280;
/// Largest MTU. IPv4 cannot express a longer packet.
pub const MTU_MAX: usize = 65535;
/// Maximum number of peers.
pub const PEERS_MAX: usize = 48;
/// Number of threads that accept connections. While one admits a peer, another waits for the next request.
const ACCEPTORS: usize = 2;
/// Completion queue entries for one peer: for its two links, and for the two older ones that they replace.
const ENTRIES: usize = 2 * (RECEIVES + TOLD_MAX);

/// Configuration of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Length in bytes of the longest packet. All peers' lanes must have the same MTU.
    pub mtu: usize,
    /// The lane's peers.
    pub peers: Vec<PeerConfig>,
}

/// Configuration of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// Name of the peer in messages for users.
    pub name: String,
    /// Address of the peer's NIC, as VIA's host address.
    pub host: Box<[u8]>,
    /// Addresses of the peer: destinations of packets for it, and permitted sources of packets from it.
    pub networks: Vec<IpNet>,
}

/// Reason why a lane could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The MTU is out of range.
    #[error("cannot use an MTU of {mtu} bytes: expected {MTU_MIN} to {longest}")]
    Mtu {
        /// The requested MTU.
        mtu: usize,
        /// The largest MTU possible with this NIC.
        longest: usize,
    },
    /// There are too many peers.
    #[error("cannot use {0} peers: at most {PEERS_MAX} are possible")]
    Peers(usize),
    /// Two peers have the same network.
    #[error(transparent)]
    Overlap(#[from] Overlap),
    /// Two peers have the same NIC address.
    #[error("{0} and {1} are at the same place: give the networks to one peer")]
    SamePlace(String, String),
    /// The NIC cannot create a completion queue of the necessary length.
    #[error("the NIC cannot serve this many peers: {0}")]
    Cq(#[from] CqError),
    /// A thread could not be started.
    #[error("cannot start a thread for the lane")]
    Thread,
}

impl Config {
    /// Checks the parts of the configuration that do not depend on the NIC.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn check(&self) -> Result<(), StartError> {
        self.routes().map(drop)
    }

    fn routes(&self) -> Result<Routes, StartError> {
        let Config { mtu, peers } = self;
        if !(MTU_MIN..=MTU_MAX).contains(mtu) {
            return Err(StartError::Mtu { mtu: *mtu, longest: MTU_MAX });
        }
        if peers.len() > PEERS_MAX {
            return Err(StartError::Peers(peers.len()));
        }
        let mut routes = Routes::default();
        for (at, peer) in peers.iter().enumerate() {
            if let Some(other) = peers[..at].iter().find(|other| other.host == peer.host) {
                return Err(StartError::SamePlace(other.name.clone(), peer.name.clone()));
            }
            for network in &peer.networks {
                routes.add(*network, at)?;
            }
        }
        Ok(routes)
    }
}

/// A running lane. It runs until [`Lane::down`] or the end of the process.
pub struct Lane<N: Nic, D> {
    shared: Arc<Shared<N, D>>,
}

impl<N: Nic + 'static, D: Device> Lane<N, D> {
    /// Starts a lane between a NIC and a device. The lane's threads call `report` with its events.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn up(
        nic: N,
        device: D,
        config: Config,
        report: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Lane<N, D>, StartError> {
        let routes = config.routes()?;
        let Config { mtu, peers } = config;
        let longest = MTU_MAX.min(nic.attributes().max_transfer_size as usize);
        if mtu > longest {
            return Err(StartError::Mtu { mtu, longest });
        }
        let entries = ENTRIES * (peers.len() + 1);
        let cq = nic.create_cq(entries as u32, 0)?;
        let shared = Arc::new(Shared {
            nic: Arc::new(nic),
            cq,
            device,
            mtu,
            routes,
            peers: peers.into_iter().map(place).collect(),
            links: Mutex::default(),
            last_id: AtomicU64::new(0),
            counts: Counts::default(),
            report: Box::new(report),
            stranger_told: AtomicBool::new(false),
        });
        // Start to accept connections before the device's packets are taken.
        for _ in 0..ACCEPTORS {
            start(&shared, "lane-accept", |shared| accept::run(shared))?;
        }
        start(&shared, "lane-in", |shared| incoming::run(shared))?;
        start(&shared, "lane-out", outgoing::run)?;
        Ok(Lane { shared })
    }

    /// Returns the packet counters.
    pub fn counters(&self) -> Counters {
        self.shared.counts.read()
    }

    /// Ends all connections, so that the peers notice at once. The lane's threads run until the end of the process.
    pub fn down(&self) {
        let links: Vec<Link<N>> = lock(&self.shared.links).values().cloned().collect();
        for link in links {
            match link {
                Link::Sender(sender) => sender.vi.disconnect(),
                Link::Receiver(receiver) => receiver.vi.disconnect(),
            }
        }
    }
}

fn place<N: Nic>(config: PeerConfig) -> PeerPlace<N> {
    PeerPlace {
        name: config.name,
        address: NetAddress::new(&config.host, DISCRIMINATOR),
        way: Mutex::new(Peer::default()),
        receiver: Mutex::new(None),
        absence: Mutex::new(None),
    }
}

fn start<N: Nic + 'static, D: Device>(
    shared: &Arc<Shared<N, D>>,
    name: &str,
    run: fn(&Arc<Shared<N, D>>),
) -> Result<(), StartError> {
    let shared = shared.clone();
    let work = move || run(&shared);
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map(drop)
        .map_err(|_| StartError::Thread)
}
