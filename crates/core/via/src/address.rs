//! Addresses of connection endpoints.

use core::fmt;

/// A NIC's address and a discriminator, which correspond to a host and a port (`VIP_NET_ADDRESS`). Both are opaque
/// bytes. The NIC's attributes limit their lengths.
///
/// ```
/// use via::NetAddress;
///
/// let address = NetAddress::new(&[2, 0, 0, 0, 0, 1], b"echo");
/// assert_eq!(address.to_string(), "02:00:00:00:00:01/6563686f");
/// assert_eq!(address.with_discriminator(b"time").host, address.host);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetAddress {
    /// The NIC's address.
    pub host: Box<[u8]>,
    /// Identifies one of the endpoints at that address.
    pub discriminator: Box<[u8]>,
}

impl NetAddress {
    /// Creates an address from its two parts.
    pub fn new(host: &[u8], discriminator: &[u8]) -> NetAddress {
        NetAddress { host: host.into(), discriminator: discriminator.into() }
    }

    /// Returns the address of the same NIC with another discriminator.
    pub fn with_discriminator(&self, discriminator: &[u8]) -> NetAddress {
        NetAddress { host: self.host.clone(), discriminator: discriminator.into() }
    }
}

impl fmt::Debug for NetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prints an address as `02:5b:10:00:00:01/65616368`: the host's bytes, then the discriminator's bytes.
impl fmt::Display for NetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.host.iter().enumerate() {
            let colon = if i == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02x}")?;
        }
        write!(f, "/")?;
        self.discriminator.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn net_address_is_displayed_as_host_and_discriminator() {
        let address = NetAddress::new(&[2, 0x5b, 0], b"each");
        assert_eq!(address.to_string(), "02:5b:00/65616368");
        assert_eq!(address.with_discriminator(b"x").host, address.host);
    }
}
