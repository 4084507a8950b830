//! A network device, identified by its index.

use crate::Error;
use crate::OpenError;
use crate::port::Step;
use sovia_sys::call::RawFd;
use sovia_sys::interface::{Interfaces, State};

/// A device, and its state at the last look.
#[derive(Debug)]
pub(crate) struct Device {
    interfaces: Interfaces,
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) state: State,
}

impl Device {
    /// Finds a device by name in the calling thread's network namespace.
    pub(crate) fn open(name: &str) -> Result<Device, OpenError> {
        let interfaces = Interfaces::watch().step("cannot open a netlink socket")?;
        let index = interfaces.find(name).step("cannot find the network device")?;
        let state = interfaces.state(index).step("cannot read the state of the network device")?;
        Ok(Device { interfaces, name: name.to_owned(), index, state })
    }

    /// Returns the descriptor that is readable after a change of any device.
    pub(crate) fn news(&self) -> RawFd {
        self.interfaces.raw()
    }

    /// Returns the device's current number of receive queues.
    pub(crate) fn receive_queues(&self) -> sovia_sys::Result<u32> {
        self.interfaces.receive_queues(self.index)
    }

    /// Looks at the device if any device has changed.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        if self.interfaces.take_events() { self.look() } else { self.health() }
    }

    /// Reads the device's state.
    pub(crate) fn look(&mut self) -> Result<(), Error> {
        self.state = self.interfaces.state(self.index)?;
        self.health()
    }

    fn health(&self) -> Result<(), Error> {
        if self.state.is_up { Ok(()) } else { Err(Error::Down) }
    }
}
