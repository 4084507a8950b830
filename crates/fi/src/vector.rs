//! Address vectors.

use crate::address::Address;

/// An address vector, which numbers addresses. A number is never reused.
#[derive(Debug, Default)]
pub struct Vector {
    addresses: Vec<Option<Address>>,
    /// Endpoints that use this vector.
    pub(crate) endpoints: Vec<usize>,
}

impl Vector {
    /// Adds an address and returns its number.
    pub fn insert(&mut self, address: Address) -> u64 {
        self.addresses.push(Some(address));
        self.addresses.len() as u64 - 1
    }

    /// Returns the address with this number.
    pub fn get(&self, number: u64) -> Option<Address> {
        *self.addresses.get(usize::try_from(number).ok()?)?
    }

    /// Removes and returns the address with this number.
    pub fn remove(&mut self, number: u64) -> Option<Address> {
        self.addresses.get_mut(usize::try_from(number).ok()?)?.take()
    }

    /// Returns true if an endpoint uses this vector.
    pub fn is_used(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// Returns the numbers of the endpoints that use this vector.
    pub fn endpoints(&self) -> Vec<usize> {
        self.endpoints.clone()
    }

    /// Returns the lowest number of an address.
    pub fn number_of(&self, address: &Address) -> Option<u64> {
        self.addresses.iter().position(|its| its.as_ref() == Some(address)).map(|at| at as u64)
    }
}
