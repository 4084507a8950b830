//! The NICs of this process that may have others beside them.

use crate::driven::Driven;
use crate::wire::{WeakWire, Wire};
use std::sync::{Mutex, PoisonError};

/// NICs by their places, for as long as the program has them and their networks are there.
#[derive(Debug)]
pub struct Registry<P, M: Driven>(Mutex<Vec<(P, WeakWire<M>)>>);

impl<P: Clone + PartialEq, M: Driven> Registry<P, M> {
    /// None.
    pub const fn new() -> Registry<P, M> {
        Registry(Mutex::new(Vec::new()))
    }

    /// What is in that place, or has come there by `start`.
    ///
    /// # Errors
    /// Those of `start`.
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
