//! The NICs of this process that may have others beside them.

use crate::nic::EthNic;
use crate::wire::{WeakWire, Wire};
use sovia_port::{Address, Place};
use std::sync::{Mutex, PoisonError};

/// A place, the wire there, and its address.
type Entry = (Place, WeakWire, Address);

static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// What is in a place.
pub(crate) enum Found {
    /// A wire that was there.
    Here(Wire, Address),
    /// A NIC that has been opened there now.
    New(EthNic),
}

/// What is in that place, or has come there by `open`.
pub(crate) fn find_or_add<E>(
    place: &Place,
    open: impl FnOnce() -> Result<EthNic, E>,
) -> Result<Found, E> {
    let mut entries = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut here = None;
    entries.retain(|(of, wire, at)| {
        let wire = wire.find();
        let is_there = wire.is_some();
        if of == place {
            here = wire.map(|wire| (wire, *at));
        }
        is_there
    });
    if let Some((wire, address)) = here {
        return Ok(Found::Here(wire, address));
    }
    let nic = open()?;
    entries.push((place.clone(), nic.driver().downgrade(), nic.node()));
    Ok(Found::New(nic))
}
