//! Finds out whether a NIC that takes no messages is gone.
//!
//! Not every provider reports a peer that is gone: `ofi_rxm` connects again and again, and has no room meanwhile. The peer's address then
//! says what to look at: an Internet address is the port at which its endpoint listens, and a connection there is refused if the endpoint is
//! gone; an address of `shm` begins with the number of a process. A peer that is only stopped is not gone.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::time::Duration;
use std::io::ErrorKind;
use std::net::TcpStream;

/// A host that has not answered after this long is not known to be gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// The Internet address that an endpoint's address is, if it is one.
fn internet(address: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*address.first_chunk()?);
    let port = u16::from_be_bytes(*address.get(2..)?.first_chunk()?);
    match (family, address.len()) {
        (2, 16) => {
            let ip: [u8; 4] = *address.get(4..)?.first_chunk()?;
            Some((IpAddr::V4(Ipv4Addr::from(ip)), port).into())
        }
        (10, 28) => {
            let ip: [u8; 16] = *address.get(8..)?.first_chunk()?;
            let scope = u32::from_ne_bytes(*address.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
        }
        _ => None,
    }
}

/// The process that the address of an endpoint of `shm`'s names.
fn process(address: &[u8]) -> Option<u32> {
    let text = core::str::from_utf8(address).ok()?.trim_end_matches('\0');
    let digits = text.strip_prefix("fi_shm://")?;
    let digits = digits.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Whether the endpoint of an address is known to be gone. It may take long.
pub(crate) fn is_gone(address: &[u8]) -> bool {
    if let Some(process) = process(address) {
        return std::fs::metadata(format!("/proc/{process}")).is_err();
    }
    let Some(at) = internet(address) else { return false };
    match TcpStream::connect_timeout(&at, PATIENCE) {
        Ok(_) => false,
        Err(why) => matches!(
            why.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use std::net::TcpListener;

    #[test]
    fn an_address_names_a_port_or_a_process() {
        for text in ["10.0.0.1:7000", "[fe80::1]:7000"] {
            let place: Place = format!("tcp@{text}").parse().unwrap();
            assert_eq!(internet(&place.host().unwrap()), Some(text.parse().unwrap()));
        }
        assert_eq!(process(b"fi_shm://4711:2\0"), Some(4711));
        assert_eq!((process(b"fi_ns://a"), internet(b"fi_ns://a")), (None, None));
    }

    #[test]
    fn a_port_where_nothing_listens_is_gone_and_one_where_something_does_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place: Place = format!("tcp@{}", listener.local_addr().unwrap()).parse().unwrap();
        let host = place.host().unwrap();
        assert!(!is_gone(&host), "it does not even accept");
        drop(listener);
        assert!(is_gone(&host));
        assert!(!is_gone(format!("fi_shm://{}", std::process::id()).as_bytes()));
        assert!(is_gone(b"fi_shm://4999999"), "there are no such numbers");
    }
}
