//! Configuration: the NIC and its use.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Port at which a NIC listens unless the configuration names another port.
const PORT: u16 = 7473;

/// Error of opening a NIC.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The text does not name a NIC.
    #[error(
        "\"{0}\" is not an RDMA NIC: expected DEVICE, ADDRESS or DEVICE@ADDRESS, optionally with :PORT, such as rxe0 or mlx5_0@10.0.0.1:7473"
    )]
    Name(String),
    /// The device does not exist, or has no address.
    #[error("{device}: {why}")]
    Device {
        /// Name of the device.
        device: String,
        /// Reason why the device cannot be used.
        why: &'static str,
    },
    /// A library is missing, or a call of a library has failed.
    #[error(transparent)]
    Verbs(#[from] sovia_verbs::Error),
    /// A system call has failed.
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
}

/// Configuration of a NIC to open.
///
/// ```
/// use via_verbs::Config;
///
/// let config: Config = "10.77.0.1:7000".parse()?;
/// assert_eq!(config.at.to_string(), "10.77.0.1:7000");
/// assert!("10.77.0.1:port".parse::<Config>().is_err());
/// # Ok::<(), via_verbs::OpenError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// The address that selects the device, and the port at which the NIC listens. The address also selects the
    /// device's GID, and on InfiniBand its partition, because each of these has an interface with an address of its
    /// own.
    pub at: SocketAddr,
    /// If true, only this port is used. Otherwise the NIC takes any free port if another program has this one.
    pub is_port_given: bool,
    /// Number of descriptors in one work queue.
    pub depth: u32,
    /// Largest number of segments that a request passes to the device without a copy. A descriptor with more segments
    /// is copied.
    pub segments: u32,
    /// Largest number of bytes that a request carries itself.
    pub inline: u32,
}

impl Config {
    /// Makes a configuration with the default sizes.
    pub fn new(at: IpAddr, port: Option<u16>) -> Config {
        Config {
            at: (at, port.unwrap_or(PORT)).into(),
            is_port_given: port.is_some(),
            depth: 512,
            segments: 8,
            inline: 192,
        }
    }
}

impl FromStr for Config {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Config, OpenError> {
        let bad = || OpenError::Name(text.to_owned());
        let (device, place) = match text.split_once('@') {
            Some((device, place)) => (Some(device), place),
            None => (None, text),
        };
        if let Ok(at) = place.parse::<SocketAddr>() {
            return Ok(Config::new(at.ip(), Some(at.port())));
        }
        if let Ok(at) = place.parse::<IpAddr>() {
            return Ok(Config::new(at, None));
        }
        if device.is_some() {
            return Err(bad());
        }
        let (device, port) = match place.split_once(':') {
            Some((device, port)) => (device, Some(port.parse().map_err(|_| bad())?)),
            None => (place, None),
        };
        if device.is_empty()
            || !device.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        {
            return Err(bad());
        }
        Ok(Config::new(address_of(device)?, port))
    }
}

/// Returns the first address of a device. The device's GIDs contain the addresses of its interfaces.
fn address_of(device: &str) -> Result<IpAddr, OpenError> {
    let fault = |why| OpenError::Device { device: device.to_owned(), why };
    let folder = format!("/sys/class/infiniband/{device}/ports/1/gids");
    let entries = fs::read_dir(&folder)
        .map_err(|_| fault("no such RDMA device (`ibv_devices` lists the devices)"))?;
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let gid =
        |n: &u32| fs::read_to_string(format!("{folder}/{n}")).ok()?.trim().parse::<Ipv6Addr>().ok();
    let gids: Vec<Ipv6Addr> = numbers.iter().filter_map(gid).collect();
    let v4 = gids.iter().find_map(|gid| gid.to_ipv4_mapped()).map(IpAddr::from);
    // Skips link-local addresses. The device's own GID is link-local, and no interface has it.
    let global = |gid: &&Ipv6Addr| !gid.is_unspecified() && gid.segments()[0] != 0xfe80;
    v4.or_else(|| gids.iter().find(global).copied().map(IpAddr::from)).ok_or(fault(
        "the device has no IP address: give its interface an address, or use DEVICE@ADDRESS",
    ))
}

/// Encodes an address as the host part of a NIC's address.
pub(crate) fn host(at: SocketAddr) -> Box<[u8]> {
    let mut bytes = match at.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    bytes.extend(at.port().to_be_bytes());
    bytes.into()
}

/// Decodes the host part of a NIC's address; see [`host`].
pub(crate) fn place(host: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = host.split_last_chunk::<2>()?;
    let ip: IpAddr = match ip.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(ip).ok()?).into(),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_and_back() {
        for text in ["10.77.0.1:7000", "[2001:db8::7]:1"] {
            let at: SocketAddr = text.parse().unwrap();
            assert_eq!(place(&host(at)), Some(at));
        }
        assert_eq!(place(b"nobody's NIC"), None);
    }

    #[test]
    fn what_names_no_nic_is_refused() {
        for text in ["", "rxe0:", "rxe0:70000", "a/../b", "rxe0@", "rxe0@here"] {
            assert!(matches!(text.parse::<Config>(), Err(OpenError::Name(_))), "{text}");
        }
        assert!(matches!("no-such-nic".parse::<Config>(), Err(OpenError::Device { .. })));
    }
}
