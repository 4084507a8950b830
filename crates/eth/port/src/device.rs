//! A network device, by its number.

use crate::Error;
use crate::OpenError;
use crate::port::Step;
use sovia_sys::call::RawFd;
use sovia_sys::interface::{Interfaces, State};

/// A device, and how it was when it was last looked at.
#[derive(Debug)]
pub(crate) struct Device {
    interfaces: Interfaces,
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) state: State,
}

impl Device {
    /// The device of that name in the network namespace of the calling thread.
    pub(crate) fn open(name: &str) -> Result<Device, OpenError> {
        let interfaces = Interfaces::watch().step("cannot open a netlink socket")?;
        let index = interfaces.find(name).step("cannot find the network device")?;
        let state = interfaces.state(index).step("cannot read the state of the network device")?;
        Ok(Device { interfaces, name: name.to_owned(), index, state })
    }

    /// The descriptor that is readable when something has changed.
    pub(crate) fn news(&self) -> RawFd {
        self.interfaces.raw()
    }

    /// Receive queues that the device has now.
    pub(crate) fn receive_queues(&self) -> sovia_sys::Result<u32> {
        self.interfaces.receive_queues(self.index)
    }

    /// Looks at the device if there is news of any.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        if self.interfaces.take_events() { self.look() } else { self.health() }
    }

    /// Looks at the device.
    pub(crate) fn look(&mut self) -> Result<(), Error> {
        self.state = self.interfaces.state(self.index)?;
        self.health()
    }

    fn health(&self) -> Result<(), Error> {
        if self.state.is_up { Ok(()) } else { Err(Error::Down) }
    }
}
