//! The NICs of this process whose ports other NICs may share.

use crate::driven::Driven;
use crate::wire::{WeakWire, Wire};
use std::sync::{Mutex, PoisonError};

/// NICs by place, while the program uses them and their networks exist.
#[derive(Debug)]
pub struct Registry<P, M: Driven>(Mutex<Vec<(P, WeakWire<M>)>>);

impl<P: Clone + PartialEq, M: Driven> Registry<P, M> {
    /// Returns an empty registry.
    pub const fn new() -> Registry<P, M> {
        Registry(Mutex::new(Vec::new()))
    }

    /// Returns the NIC at a place. If none exists, starts one by `start`.
    ///
    /// # Errors
    /// Returns the errors of `start`.
    pub fn find_or_start<E>(
        &self,
        place: &P,
        start: impl FnOnce() -> Result<Wire<M>, E>,
    ) -> Result<Wire<M>, E> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut here = None;
        entries.retain(|(of, wire)| {
            let wire = wire.find();
            let is_there = wire.is_some();
            if of == place {
                here = wire;
            }
            is_there
        });
        if let Some(wire) = here {
            return Ok(wire);
        }
        let wire = start()?;
        entries.push((place.clone(), wire.downgrade()));
        Ok(wire)
    }
}

impl<P: Clone + PartialEq, M: Driven> Default for Registry<P, M> {
    fn default() -> Registry<P, M> {
        Registry::new()
    }
}
