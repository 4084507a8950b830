//! Where a frame is to go, or has come from.

use core::fmt;
use core::net::SocketAddr;

/// The address of a port, in the form that ports of its kind have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Address {
    /// An Ethernet address.
    Mac([u8; 6]),
    /// An Internet address and a UDP port.
    Udp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Mac([a, b, c, d, e, g]) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            Address::Udp(address) => address.fmt(f),
        }
    }
}
