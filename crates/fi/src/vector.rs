//! Address vectors.

use crate::address::Address;

/// An address vector: numbers for addresses. A number is never given again.
#[derive(Debug, Default)]
pub struct Vector {
    addresses: Vec<Option<Address>>,
    /// Endpoints that use it.
    pub(crate) endpoints: Vec<usize>,
}

impl Vector {
    /// Gives an address the next number.
    pub fn insert(&mut self, address: Address) -> u64 {
        self.addresses.push(Some(address));
        self.addresses.len() as u64 - 1
    }

    /// The address of that number.
    pub fn get(&self, number: u64) -> Option<Address> {
        *self.addresses.get(usize::try_from(number).ok()?)?
    }

    /// Takes the address of that number out.
    pub fn remove(&mut self, number: u64) -> Option<Address> {
        self.addresses.get_mut(usize::try_from(number).ok()?)?.take()
    }

    /// Whether an endpoint uses it.
    pub fn is_used(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// The numbers of the endpoints that use it.
    pub fn endpoints(&self) -> Vec<usize> {
        self.endpoints.clone()
    }

    /// The lowest number of an address.
    pub fn number_of(&self, address: &Address) -> Option<u64> {
        self.addresses.iter().position(|its| its.as_ref() == Some(address)).map(|at| at as u64)
    }
}
