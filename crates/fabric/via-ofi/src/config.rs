//! Configuration of a NIC, and its opening.

use crate::fabric::Fabric;
use crate::message::HEADER_MAX;
use crate::nic::OfiNic;
use crate::nodes::Node;
use crate::place::Place;
use core::time::Duration;
use sovia_drive::{Registry, Wire};
use sovia_link::stream::{Control, Timing};
use sovia_link::wire::{Checksum, OVERHEAD};
use sovia_ofi::Endpoint;
use sovia_softnic::Description;

/// Configuration of a NIC on libfabric.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Place of the NIC.
    pub place: Place,
    /// Messages of at least this length are moved from memory to memory. Both sides copy shorter messages.
    pub moves_from: u32,
    /// Time for which a waiting call polls before it sleeps.
    pub spin: Duration,
}

/// Error of opening a NIC.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// libfabric or its provider has failed.
    #[error("{place}: {why}")]
    Fabric {
        /// Place of the NIC.
        place: Place,
        /// libfabric's error.
        why: Box<sovia_ofi::Error>,
    },
    /// The provider's messages or addresses are unsuitable for a NIC.
    #[error(
        "{0}: cannot use this provider: its longest message is too short, or its addresses are too long"
    )]
    Limits(Place),
    /// The NIC cannot get a thread, or a descriptor to wake the thread.
    #[error("{0}: cannot start the thread of the NIC")]
    Thread(Place),
}

/// Largest length of a frame in bytes. With its defaults, `ofi_rxm` sends such a frame without a handshake.
const FRAME: usize = 16 << 10;
/// Smallest message that is moved. A shorter message takes less time as copied frames, which need no handshake.
const MOVES_FROM: u32 = (64 << 10) + 1;
/// Largest message in bytes.
const TRANSFER_MAX: usize = 16 << 20;
/// Largest number of unacknowledged frames in one direction of a connection.
const WINDOW: u32 = 256;

/// NICs of this process in places where only one NIC can be.
static OPEN: Registry<Place, Fabric> = Registry::new();

impl Config {
    /// Makes a configuration for a place, with the default values.
    pub fn new(place: Place) -> Config {
        Config { place, moves_from: MOVES_FROM, spin: Duration::from_micros(30) }
    }

    /// Opens a NIC with an endpoint of its own.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open(&self) -> Result<OfiNic, OpenError> {
        self.start().map(|wire| self.on(wire))
    }

    /// Opens a NIC, and shares the endpoint of another NIC of this process in the same place. If there is none, or if
    /// two endpoints can be in this place, the NIC gets its own endpoint. With a shared endpoint, this configuration
    /// has no effect except for the place.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open_shared(&self) -> Result<OfiNic, OpenError> {
        if !self.place.is_shared() {
            return self.open();
        }
        OPEN.find_or_start(&self.place, || self.start()).map(|wire| self.on(wire))
    }

    /// Opens a NIC on the same endpoint as another NIC. It has the same address, and memory, tags and VIs of its own.
    pub fn open_beside(&self, nic: &OfiNic) -> OfiNic {
        self.on(nic.driver().clone())
    }

    fn start(&self) -> Result<Wire<Fabric>, OpenError> {
        let place = || self.place.clone();
        let (node, service) = self.place.asked();
        let asked = (node.as_deref(), service.as_deref());
        let opened = Endpoint::open(&self.place.provider, asked, FRAME);
        let endpoint = opened.map_err(|why| {
            let (place, why) = (place(), Box::new(why));
            OpenError::Fabric { place, why }
        })?;
        let frame = endpoint.frame_max().min(endpoint.limits().longest);
        if frame < 4096 || !(1..=crate::message::ADDRESS_MAX).contains(&endpoint.address().len()) {
            return Err(OpenError::Limits(place()));
        }
        // The network below loses no frame and never gives up: it reports every frame that it cannot send.
        let timing =
            Timing { first: Duration::from_secs(2), longest: Duration::from_secs(60), tries: None };
        let engine = sovia_softnic::Config {
            mtu: (frame - HEADER_MAX - OVERHEAD) as u32,
            probes: false,
            window: WINDOW,
            control: Control::Fixed,
            timing,
            checksum: Checksum::Link,
        };
        let alike = self.place.provider != "shm";
        let fabric = Fabric::new(endpoint, self.moves_from, alike);
        let wire = fabric.and_then(|fabric| Wire::start(fabric, engine, self.spin));
        wire.ok_or_else(|| OpenError::Thread(place()))
    }

    fn on(&self, wire: Wire<Fabric>) -> OfiNic {
        let name = format!("ofi:{}", self.place);
        let (host, longest, registers) = wire.inspect(|world| {
            let endpoint = &world.medium().endpoint;
            let limits = endpoint.limits();
            (Box::<[u8]>::from(endpoint.address()), limits.longest, limits.registers)
        });
        let description = Description {
            name: &name,
            address: &host,
            transfer_max: longest.min(TRANSFER_MAX) as u32,
            registration_is_free: !registers,
            sends_execute_in_caller: false,
            spawn: |job| std::thread::Builder::new().name("ofinic".into()).spawn(job).map(drop),
        };
        OfiNic::open(wire, Node::OWN, &description)
    }
}
