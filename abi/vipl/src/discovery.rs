//! A NIC's address, in the form in which programs discover it.

use crate::pointer::{NetAddressHeader, Opaque};

/// Size of a `VIP_NET_ADDRESS` in bytes, because a program may copy one by assignment.
const ADDRESS: usize = size_of::<NetAddressHeader>() + 22;

/// A NIC's address as a `VIP_NET_ADDRESS` without a discriminator. It consists of 16-bit words, so that it has the
/// right alignment.
pub(crate) struct Discovery(Box<[u16]>);

impl Discovery {
    /// Makes the value for a NIC with this address.
    pub(crate) fn new(host: &[u8]) -> Discovery {
        let words = host
            .chunks(2)
            .map(|pair| u16::from_ne_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]));
        let mut address: Vec<u16> = [host.len() as u16, 0].into_iter().chain(words).collect();
        address.resize(address.len().max(ADDRESS / 2), 0);
        Discovery(address.into())
    }
    /// Returns the address of the structure, which is valid while `self` lives.
    pub(crate) fn address(&self) -> Opaque {
        Opaque(self.0.as_ptr().cast_mut().cast())
    }
}
