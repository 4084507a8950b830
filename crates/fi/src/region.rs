//! Registered memory, which peers read and write by its key.

use crate::error::Error;
use crate::memory::Buffer;
use std::collections::HashMap;

/// A part of the program's memory that peers may use.
#[derive(Debug)]
pub struct Region {
    /// The memory.
    pub memory: Buffer,
    /// What peers may do, by [`crate::flag::REMOTE_READ`] and [`crate::flag::REMOTE_WRITE`].
    pub access: u64,
    /// The address by which peers name its first byte.
    pub base: u64,
    /// The counter that counts what peers do.
    pub counter: Option<usize>,
}

/// The registered memory of a domain.
#[derive(Debug, Default)]
pub struct Regions(HashMap<u64, Region>);

impl Regions {
    /// Registers memory by a key.
    ///
    /// # Errors
    /// [`Error::BUSY`] if another region has the key.
    pub fn insert(&mut self, key: u64, region: Region) -> Result<(), Error> {
        match self.0.entry(key) {
            std::collections::hash_map::Entry::Occupied(_) => Err(Error::BUSY),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(region);
                Ok(())
            }
        }
    }

    /// Ends a registration.
    pub fn remove(&mut self, key: u64) -> Option<Region> {
        self.0.remove(&key)
    }

    /// The region of that key.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Region> {
        self.0.get_mut(&key)
    }

    /// The region of that key and the place in it, for a peer that wants so many bytes and those rights.
    ///
    /// # Errors
    /// [`Error::KEY`] if there is none, [`Error::ACCESS`] for want of a right, [`Error::INVALID`] beyond its ends.
    pub(crate) fn find(
        &self,
        key: u64,
        address: u64,
        len: u64,
        access: u64,
    ) -> Result<(&Region, usize), Error> {
        let region = self.0.get(&key).ok_or(Error::KEY)?;
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
        // SAFETY: it is not used.
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
}
