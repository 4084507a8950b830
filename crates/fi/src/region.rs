//! Registered memory, which peers read and write by key.

use crate::error::Error;
use crate::memory::Buffer;
use std::collections::HashMap;

/// A registered part of the program's memory.
#[derive(Debug)]
pub struct Region {
    /// The memory.
    pub memory: Buffer,
    /// Peers' rights: [`crate::flag::REMOTE_READ`] and [`crate::flag::REMOTE_WRITE`].
    pub access: u64,
    /// Address that peers use for the first byte.
    pub base: u64,
    /// The counter of peers' writes.
    pub counter: Option<usize>,
}

/// Identifies a registration: its key, and a number that distinguishes it from other registrations with the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registration {
    key: u64,
    number: u64,
}

/// The registered memory of a domain.
#[derive(Debug, Default)]
pub struct Regions {
    /// Regions by key, with the number of the registration.
    regions: HashMap<u64, (u64, Region)>,
    registered: u64,
}

impl Regions {
    /// Registers memory under a key.
    ///
    /// # Errors
    /// Returns [`Error::BUSY`] if another region has the key.
    pub fn insert(&mut self, key: u64, region: Region) -> Result<(), Error> {
        match self.regions.entry(key) {
            std::collections::hash_map::Entry::Occupied(_) => Err(Error::BUSY),
            std::collections::hash_map::Entry::Vacant(place) => {
                self.registered += 1;
                place.insert((self.registered, region));
                Ok(())
            }
        }
    }

    /// Ends a registration.
    pub fn remove(&mut self, key: u64) -> Option<Region> {
        self.regions.remove(&key).map(|(_, region)| region)
    }

    /// Returns the region with this key.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Region> {
        self.regions.get_mut(&key).map(|(_, region)| region)
    }

    /// Returns the current registration with this key.
    pub(crate) fn registration(&self, key: u64) -> Option<Registration> {
        self.regions.get(&key).map(|(number, _)| Registration { key, number: *number })
    }

    /// Returns the region of a registration; `None` if the program has deregistered the region.
    pub(crate) fn of(&self, registration: Registration) -> Option<&Region> {
        let (number, region) = self.regions.get(&registration.key)?;
        (*number == registration.number).then_some(region)
    }

    /// Returns the region with this key, and the position of `address` in the region. Checks that the region has `len`
    /// bytes there and grants the rights in `access`.
    ///
    /// # Errors
    /// Returns [`Error::KEY`] if no region has the key, [`Error::ACCESS`] if a right is missing, [`Error::INVALID`] if
    /// the bytes exceed the region.
    pub(crate) fn find(
        &self,
        key: u64,
        address: u64,
        len: u64,
        access: u64,
    ) -> Result<(&Region, usize), Error> {
        let (_, region) = self.regions.get(&key).ok_or(Error::KEY)?;
        if region.access & access != access {
            return Err(Error::ACCESS);
        }
        let at = address.checked_sub(region.base).ok_or(Error::INVALID)?;
        let end = at.checked_add(len).ok_or(Error::INVALID)?;
        if end > region.memory.len() as u64 {
            return Err(Error::INVALID);
        }
        Ok((region, at as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::{REMOTE_READ, REMOTE_WRITE};
    use crate::memory::Piece;

    #[test]
    fn only_what_is_registered_is_found() {
        let memory = [0u8; 100];
        let piece = Piece { address: memory.as_ptr().addr(), len: memory.len() };
        // SAFETY: nothing reads or writes through the buffer.
        let memory = unsafe { Buffer::new(&[piece]) }.unwrap();
        let mut regions = Regions::default();
        let region = Region { memory, access: REMOTE_READ, base: 1000, counter: None };
        regions.insert(7, region).unwrap();
        let find =
            |key, address, len, access| regions.find(key, address, len, access).map(|(_, at)| at);
        assert_eq!(find(7, 1000, 100, REMOTE_READ), Ok(0));
        assert_eq!(find(7, 1099, 1, REMOTE_READ), Ok(99));
        assert_eq!(find(7, 1100, 0, REMOTE_READ), Ok(100));
        assert_eq!(find(7, 1100, 1, REMOTE_READ), Err(Error::INVALID));
        assert_eq!(find(7, 999, 1, REMOTE_READ), Err(Error::INVALID));
        assert_eq!(find(7, 1001, u64::MAX, REMOTE_READ), Err(Error::INVALID));
        assert_eq!(find(7, 1000, 1, REMOTE_WRITE), Err(Error::ACCESS));
        assert_eq!(find(8, 1000, 1, REMOTE_READ), Err(Error::KEY));
    }
    #[test]
    fn a_registration_is_not_the_next_one_of_its_key() {
        let region = || Region { memory: Buffer::default(), access: 0, base: 0, counter: Some(3) };
        let mut regions = Regions::default();
        regions.insert(7, region()).unwrap();
        let first = regions.registration(7).unwrap();
        assert_eq!(regions.of(first).and_then(|region| region.counter), Some(3));
        regions.remove(7);
        assert!(regions.of(first).is_none());
        regions.insert(7, region()).unwrap();
        assert!(regions.of(first).is_none());
        assert!(regions.of(regions.registration(7).unwrap()).is_some());
    }
}
