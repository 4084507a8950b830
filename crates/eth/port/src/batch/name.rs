//! Addresses in the kernel's format (`sockaddr`).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Length of the longest address here, `struct sockaddr_in6`.
pub(super) const NAME_MAX: usize = 28;

/// The bytes of a `sockaddr`. Empty for a socket that needs no address to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(4))]
pub(crate) struct Name {
    bytes: [u8; NAME_MAX],
    len: u32,
}

impl Name {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// Converts an address into the kernel's format.
pub(crate) fn of_socket_addr(address: &SocketAddr) -> Name {
    let mut bytes = [0; NAME_MAX];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    let (family, len) = match address {
        SocketAddr::V4(v4) => {
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            (libc::AF_INET, 16)
        }
        SocketAddr::V6(v6) => {
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
            (libc::AF_INET6, NAME_MAX as u32)
        }
    };
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    Name { bytes, len }
}

/// Converts an address from the kernel; `None` if it belongs to another family.
pub(super) fn to_socket_addr(bytes: &[u8]) -> Option<SocketAddr> {
    let &[a, b, c, d, ref rest @ ..] = bytes else { return None };
    let port = u16::from_be_bytes([c, d]);
    match i32::from(u16::from_ne_bytes([a, b])) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(<[u8; 4]>::try_from(rest.get(..4)?).ok()?);
            Some(SocketAddr::new(IpAddr::V4(ip), port))
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(rest.get(4..20)?).ok()?);
            let scope = u32::from_ne_bytes(rest.get(20..24)?.try_into().ok()?);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in ["192.0.2.1:65535", "[2001:db8::1]:1", "[fe80::1%7]:9000"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(to_socket_addr(of_socket_addr(&address).as_bytes()), Some(address));
        }
    }

    #[test]
    fn short_or_foreign_name_is_no_address() {
        let whole = of_socket_addr(&"[::1]:1".parse().unwrap());
        for len in 0..24 {
            assert_eq!(to_socket_addr(&whole.as_bytes()[..len]), None);
        }
        assert_eq!(to_socket_addr(&[1, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
