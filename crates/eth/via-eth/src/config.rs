//! The configuration of a NIC, and functions that open it.

use crate::ether::Ether;
use crate::nic::EthNic;
use core::time::Duration;
use sovia_drive::{Registry, Wire};
use sovia_link::stream::{Control, Timing};
use sovia_link::wire::{Checksum, OVERHEAD};
use sovia_port::impair::{Faults, Impaired};
use sovia_port::{Address, Opened, Place, Port, Use};
use sovia_softnic::Description;

/// Options for opening a NIC.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The port of the NIC.
    pub place: Place,
    /// Maximum number of packets under way in one direction of a connection.
    pub window: u32,
    /// Further limit of packets under way: [`Control::Bbr`], unless no other traffic uses the link.
    pub control: Control,
    /// Time to wait for an acknowledgement before packets are sent again, and total time.
    pub timing: Timing,
    /// Time that a waiting call polls before it sleeps.
    pub spin: Duration,
    /// Faults of outgoing frames, for tests.
    pub faults: Option<Faults>,
}

/// Reason why a NIC cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The port cannot be opened.
    #[error("{place}: {why}")]
    Port {
        /// The port's name.
        place: Place,
        /// The port's error.
        why: sovia_port::OpenError,
    },
    /// The port's frames have no room for a message.
    #[error(
        "{0}: the longest frame that this port can send is too short for the protocol; raise the device's MTU"
    )]
    FrameMax(Place),
    /// The NIC cannot get a thread, or a descriptor to wake the thread.
    #[error("{0}: cannot start the thread of the NIC")]
    Thread(Place),
}

/// Smallest frame length that a NIC supports.
const LEAST: usize = 256;
/// Default window in packets. With Ethernet's usual frames these are 6 MB, the content of a path with a gigabit per
/// second and 48 ms.
const WINDOW: u32 = 4096;

/// The NICs of this process whose ports other NICs may share.
static OPEN: Registry<Place, Ether> = Registry::new();

impl Config {
    /// Returns the default options for a port. The NIC gives up a silent peer after about 15 seconds.
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
    /// Returns an [`OpenError`].
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
        // Injected faults corrupt frames after any lower layer has computed its checksum.
        let checksum = if self.faults.is_some() { Checksum::Crc } else { checksum };
        let wire = Wire::start(Ether::new(port, address, checksum), engine, self.spin);
        let wire = wire.ok_or_else(|| OpenError::Thread(self.place.clone()))?;
        Ok(self.on(wire, address))
    }

    /// Opens the NIC. Shares the port of this process's NIC at the same place, if one exists, because two ports cannot
    /// have the same place. The existing NIC's options then apply, except the place.
    ///
    /// # Errors
    /// Returns an [`OpenError`].
    pub fn open_shared(&self) -> Result<EthNic, OpenError> {
        let wire =
            OPEN.find_or_start(&self.place, || self.open().map(|nic| nic.driver().clone()))?;
        let address = wire.inspect(|world| world.medium().address());
        Ok(self.on(wire, address))
    }

    /// Opens a NIC on the port of another NIC. It has the same address, but separate memory, tags and VIs.
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
