//! What a NIC is like, and opening it.

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

/// How a NIC uses libfabric.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where it is.
    pub place: Place,
    /// Messages of that length and more are moved from memory to memory; shorter ones are copied on both sides.
    pub moves_from: u32,
    /// How long a call that waits looks before it sleeps.
    pub spin: Duration,
}

/// Why a NIC cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// libfabric, or its provider, does not do it.
    #[error("{place}: {why}")]
    Fabric {
        /// Where it was to be.
        place: Place,
        /// What libfabric says.
        why: Box<sovia_ofi::Error>,
    },
    /// Its messages or addresses are of no use for a NIC.
    #[error("{0}: the provider's messages are too short, or its addresses too long")]
    Limits(Place),
    /// It can have no thread of its own, or no descriptor to wake that by.
    #[error("{0}: cannot start the thread of the NIC")]
    Thread(Place),
}

/// Bytes of the longest frame: what `ofi_rxm` sends without asking first, by its defaults.
const FRAME: usize = 16 << 10;
/// Messages from here on are moved: shorter ones take less time as frames that are copied, for which nothing is asked and answered first.
const MOVES_FROM: u32 = (64 << 10) + 1;
/// Bytes of the longest message.
const TRANSFER_MAX: usize = 16 << 20;
/// Frames of one direction of a connection that may be on their way.
const WINDOW: u32 = 256;

/// NICs of this process in places where only one can be.
static OPEN: Registry<Place, Fabric> = Registry::new();

impl Config {
    /// A NIC in that place.
    pub fn new(place: Place) -> Config {
        Config { place, moves_from: MOVES_FROM, spin: Duration::from_micros(30) }
    }

    /// Opens the NIC.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open(&self) -> Result<OfiNic, OpenError> {
        self.start().map(|wire| self.on(wire))
    }

    /// Opens the NIC beside another one of this process in the same place, if there is one and two endpoints could not be there. All
    /// but the place is then as it is there.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open_shared(&self) -> Result<OfiNic, OpenError> {
        if !self.place.is_shared() {
            return self.open();
        }
        OPEN.find_or_start(&self.place, || self.start()).map(|wire| self.on(wire))
    }

    /// Opens a NIC beside another one, on the same endpoint: it has the same address, and memory, tags and VIs of its own.
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
        // The network below loses nothing, and gives nothing up: what it cannot send it says.
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
