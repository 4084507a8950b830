//! What a NIC is like, and opening it.

use crate::ether::Ether;
use crate::nic::EthNic;
use core::time::Duration;
use sovia_drive::{Registry, Wire};
use sovia_link::stream::{Control, Timing};
use sovia_link::wire::{Checksum, OVERHEAD};
use sovia_port::impair::{Faults, Impaired};
use sovia_port::{Address, Opened, Place, Port, Use};
use sovia_softnic::Description;

/// How a NIC speaks to others.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where it is.
    pub place: Place,
    /// Packets of one direction of a connection that may be on their way.
    pub window: u32,
    /// What else limits them: [`Control::Bbr`], unless no other traffic uses the link.
    pub control: Control,
    /// How long an acknowledgement is awaited before packets are sent again, and for how long in all.
    pub timing: Timing,
    /// How long a call that waits looks before it sleeps.
    pub spin: Duration,
    /// What goes wrong with the frames that it sends, for tests.
    pub faults: Option<Faults>,
}

/// Why a NIC cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Its port cannot be.
    #[error("{place}: {why}")]
    Port {
        /// Where it was to be.
        place: Place,
        /// What the port says.
        why: sovia_port::OpenError,
    },
    /// Its frames would have no room for a message.
    #[error(
        "{0}: the longest frame that this port can send is too short for the protocol; raise the device's MTU"
    )]
    FrameMax(Place),
    /// It can have no thread of its own, or no descriptor to wake that by.
    #[error("{0}: cannot start the thread of the NIC")]
    Thread(Place),
}

/// The shortest frames with which a NIC works.
const LEAST: usize = 256;
/// Packets of one direction of a connection that may be on their way: with those of Ethernet's usual length 6 MB, which a path
/// of a gigabit a second holds in 48 ms.
const WINDOW: u32 = 4096;

/// The NICs of this process that may have others beside them.
static OPEN: Registry<Place, Ether> = Registry::new();

impl Config {
    /// A NIC in that place, which gives a silent peer up after about a quarter of a minute.
    pub fn new(place: Place) -> Config {
        let timing = Timing {
            first: Duration::from_millis(1),
            longest: Duration::from_secs(1),
            tries: Some(24),
        };
        Config {
            place,
            window: WINDOW,
            control: Control::Bbr,
            timing,
            spin: Duration::from_micros(30),
            faults: None,
        }
    }

    /// Opens the NIC.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open(&self) -> Result<EthNic, OpenError> {
        let opened = self.place.open(Use::Nic);
        let Opened { port, own: address, link_checks, sure } =
            opened.map_err(|why| OpenError::Port { place: self.place.clone(), why })?;
        let port = self.impaired(port);
        if sure < LEAST {
            return Err(OpenError::FrameMax(self.place.clone()));
        }
        let mtu = u32::try_from(sure - OVERHEAD).unwrap_or(u32::MAX);
        let (window, control, timing) = (self.window, self.control, self.timing);
        let checksum = if link_checks { Checksum::Link } else { Checksum::Crc };
        let probes = true;
        let engine = sovia_softnic::Config { mtu, probes, window, control, timing, checksum };
        // Faults damage frames behind the checksum of whatever is below.
        let checksum = if self.faults.is_some() { Checksum::Crc } else { checksum };
        let wire = Wire::start(Ether::new(port, address, checksum), engine, self.spin);
        let wire = wire.ok_or_else(|| OpenError::Thread(self.place.clone()))?;
        Ok(self.on(wire, address))
    }

    /// Opens the NIC beside another one of this process in the same place, if there is one: two ports could not be there. All
    /// but the place is then as it is there.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open_shared(&self) -> Result<EthNic, OpenError> {
        let wire =
            OPEN.find_or_start(&self.place, || self.open().map(|nic| nic.driver().clone()))?;
        let address = wire.inspect(|world| world.medium().address());
        Ok(self.on(wire, address))
    }

    /// Opens a NIC beside another one, on the same port: it has the same address, and memory, tags and VIs of its own.
    pub fn open_beside(&self, nic: &EthNic) -> EthNic {
        self.on(nic.driver().clone(), nic.node())
    }

    fn on(&self, wire: Wire<Ether>, address: Address) -> EthNic {
        let (name, host) = (self.place.to_string(), address.host());
        let description = Description {
            name: &name,
            address: &host,
            transfer_max: 64 << 10,
            registration_is_free: true,
            sends_execute_in_caller: false,
            spawn: |job| std::thread::Builder::new().name("ethnic".into()).spawn(job).map(drop),
        };
        EthNic::open(wire, address, &description)
    }

    fn impaired(&self, port: Box<dyn Port + Send>) -> Box<dyn Port + Send> {
        match self.faults {
            Some(faults) => Box::new(Impaired::new(port, faults)),
            None => port,
        }
    }
}
