//! Places of NICs.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

/// Place of a NIC: a provider of libfabric, and an address of this host, or a name if the provider uses names.
///
/// As text: `tcp;ofi_rxm`, `tcp;ofi_rxm@10.0.0.1`, `tcp;ofi_rxm@10.0.0.1:7000`, `tcp;ofi_rxm@[fe80::1]:7000`, `shm`,
/// `shm@name`.
///
/// ```
/// use via_ofi::Place;
///
/// let place: Place = "tcp;ofi_rxm@10.0.0.1:7000".parse()?;
/// assert_eq!(place.to_string(), "tcp;ofi_rxm@10.0.0.1:7000");
/// assert_eq!(place.host().unwrap()[4..8], [10, 0, 0, 1]);
/// assert!("tcp;ofi_rxm@".parse::<Place>().is_err());
/// # Ok::<(), via_ofi::BadPlace>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub(crate) provider: String,
    pub(crate) at: At,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum At {
    Anywhere,
    Ip(IpAddr),
    Socket(SocketAddr),
    Name(String),
}

/// Error for a text that is not a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a place for libfabric: expected PROVIDER, or PROVIDER@ADDRESS[:PORT] with an address of this host (tcp;ofi_rxm@10.0.0.1:7000), \
     or PROVIDER@NAME"
)]
pub struct BadPlace(String);

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Place, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        let (provider, at) = match text.split_once('@') {
            None => (text, At::Anywhere),
            Some((provider, at)) => (provider, at.parse().map_err(|()| bad())?),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-;.".contains(c);
        if provider.is_empty() || !provider.chars().all(is_name) {
            return Err(bad());
        }
        Ok(Place { provider: provider.to_owned(), at })
    }
}

impl FromStr for At {
    type Err = ();

    fn from_str(text: &str) -> Result<At, ()> {
        let is_one_hosts = |ip: IpAddr| !ip.is_unspecified() && !ip.is_multicast();
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return if is_one_hosts(socket.ip()) { Ok(At::Socket(socket)) } else { Err(()) };
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return if is_one_hosts(ip) { Ok(At::Ip(ip)) } else { Err(()) };
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let is_one = !text.is_empty() && text.len() <= 32 && text.chars().all(is_name);
        if is_one { Ok(At::Name(text.to_owned())) } else { Err(()) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Anywhere => write!(f, "{}", self.provider),
            At::Ip(ip) => write!(f, "{}@{ip}", self.provider),
            At::Socket(socket) => write!(f, "{}@{socket}", self.provider),
            At::Name(name) => write!(f, "{}@{name}", self.provider),
        }
    }
}

impl Place {
    /// Returns the address and the service for the request to libfabric.
    pub(crate) fn asked(&self) -> (Option<String>, Option<String>) {
        match &self.at {
            At::Anywhere => (None, None),
            At::Ip(ip) => (Some(ip.to_string()), None),
            At::Socket(socket) => (Some(socket.ip().to_string()), Some(socket.port().to_string())),
            At::Name(name) => (Some(name.clone()), None),
        }
    }

    /// Returns true if the place fixes the address of its endpoint, so that only one endpoint of a process can be
    /// there.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.at, At::Socket(_) | At::Name(_))
    }

    /// Returns the host part of the VIA address of the NIC in this place. Returns `None` unless the place has an
    /// Internet address and a port: the address of such a NIC is known only after it is opened.
    pub fn host(&self) -> Option<Vec<u8>> {
        let At::Socket(socket) = self.at else { return None };
        let port = socket.port().to_be_bytes();
        // libfabric's addresses are a `struct sockaddr_in` or a `struct sockaddr_in6`.
        Some(match socket {
            SocketAddr::V4(v4) => {
                let mut host = vec![0; 16];
                host[..2].copy_from_slice(&2u16.to_ne_bytes());
                host[2..4].copy_from_slice(&port);
                host[4..8].copy_from_slice(&v4.ip().octets());
                host
            }
            SocketAddr::V6(v6) => {
                let mut host = vec![0; 28];
                host[..2].copy_from_slice(&10u16.to_ne_bytes());
                host[2..4].copy_from_slice(&port);
                host[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
                host[8..24].copy_from_slice(&v6.ip().octets());
                host[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                host
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in [
            "tcp;ofi_rxm",
            "tcp;ofi_rxm@10.0.0.1",
            "tcp;ofi_rxm@10.0.0.1:7000",
            "tcp;ofi_rxm@[fe80::1]:7000",
            "shm",
            "shm@a-name",
        ] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_place_is_an_error() {
        for text in ["", "@10.0.0.1", "tcp@", "tcp@0.0.0.0:1", "tcp@224.0.0.1", "a b", "shm@a/b"] {
            let error = text.parse::<Place>().unwrap_err();
            assert!(error.to_string().contains("not a place for libfabric"), "{error}");
        }
    }
}
