//! A NIC's address, to be found by programs.

use crate::pointer::{NetAddressHeader, Opaque};

/// Bytes of a `VIP_NET_ADDRESS`: a program may copy one by assignment.
const ADDRESS: usize = size_of::<NetAddressHeader>() + 22;

/// A NIC's address as a `VIP_NET_ADDRESS` without a discriminator. Of 16-bit words, to be aligned
/// like one.
pub(crate) struct Discovery(Box<[u16]>);

impl Discovery {
    /// That of a NIC with this address.
    pub(crate) fn new(host: &[u8]) -> Discovery {
        let words = host
            .chunks(2)
            .map(|pair| u16::from_ne_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]));
        let mut address: Vec<u16> = [host.len() as u16, 0].into_iter().chain(words).collect();
        address.resize(address.len().max(ADDRESS / 2), 0);
        Discovery(address.into())
    }
    /// Where it lies, as long as the value lives.
    pub(crate) fn address(&self) -> Opaque {
        Opaque(self.0.as_ptr().cast_mut().cast())
    }
}
