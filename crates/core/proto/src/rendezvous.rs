//! Names of connections and processes in messages to other processes, and the messages by which a program and a NIC
//! introduce themselves.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Length of an encoded [`Link`] in bytes, equal to the length of a VI's discriminator.
pub const LINK: usize = 96;
/// Position of the byte by which a request to a NIC names the end of the connection ([`Link::of_role`]).
const ROLE: usize = 48;

/// Name of a process. The nonce distinguishes the process from earlier processes with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Process number.
    pub pid: i32,
    /// Random number.
    pub nonce: u64,
}

/// Name of a connection: its two addresses, and the kernel's cookie of the sending process's socket.
///
/// ```
/// use sovia_proto::rendezvous::Link;
///
/// let connector = "127.0.0.1:40000".parse()?;
/// let acceptor = "127.0.0.1:6379".parse()?;
/// let link = Link { connector, acceptor, cookie: 7 };
/// assert_eq!(Link::decode(&link.encode()), Some(link));
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The address of the end that connected.
    pub connector: SocketAddr,
    /// The address of the end that accepted.
    pub acceptor: SocketAddr,
    /// The kernel's cookie of the socket that the sending process holds.
    pub cookie: u64,
}

impl Link {
    /// Encodes the link for a segment's table of requests.
    pub fn encode(&self) -> [u8; LINK] {
        let mut out = [0; LINK];
        put_address(&mut out[0..20], self.connector);
        put_address(&mut out[20..40], self.acceptor);
        out[40..48].copy_from_slice(&self.cookie.to_le_bytes());
        out
    }

    /// Decodes a link. Returns `None` if an address is not valid.
    pub fn decode(bytes: &[u8; LINK]) -> Option<Link> {
        Some(Link {
            connector: get_address(&bytes[0..20])?,
            acceptor: get_address(&bytes[20..40])?,
            cookie: u64::from_le_bytes(bytes[40..48].try_into().ok()?),
        })
    }

    /// Returns true if both links name the same connection, from either end.
    pub fn same_connection(&self, other: &Link) -> bool {
        self.connector == other.connector && self.acceptor == other.acceptor
    }

    /// Encodes the link for a request to a NIC. The encoded link also names the end that asks for a VI.
    pub fn of_role(&self, is_connector: bool) -> [u8; LINK] {
        let mut out = self.encode();
        out[ROLE] = 1 + u8::from(is_connector);
        out
    }

    /// Decodes a request to a NIC. Returns the link, and true if the connector made the request.
    pub fn with_role(bytes: &[u8; LINK]) -> Option<(Link, bool)> {
        let is_connector = match bytes[ROLE] {
            1 => false,
            2 => true,
            _ => return None,
        };
        Link::decode(bytes).map(|link| (link, is_connector))
    }
}

fn put_address(out: &mut [u8], address: SocketAddr) {
    out[2..4].copy_from_slice(&address.port().to_le_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            out[0] = 4;
            out[4..8].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out[0] = 6;
            out[4..20].copy_from_slice(&ip.octets());
        }
    }
}

fn get_address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_le_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip = match bytes.first()? {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?)),
        6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(4..20)?).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Prefix of the abstract Unix name at which a NIC listens for programs of its host. The NIC's own name follows.
pub const NIC_NAME: &str = "sovia-nic/";
/// Length in bytes of the longest name of a NIC.
pub const NIC_NAME_MAX: usize = 32;

/// Message by which a program or a NIC introduces itself. The program and the NIC exchange four messages:
///
/// 1. The program names its challenge, which is a file with a random name. Only a process that may trace the
///    program can read this name.
/// 2. The NIC sends the random name of the program's challenge, and names its own challenge.
/// 3. The program sends the random name of the NIC's challenge. With this message the program passes the segment,
///    its doorbells, and the descriptors that report the program's death.
/// 4. The NIC passes its doorbells, and the descriptors that report the NIC's death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Introduction {
    /// Process that sends the message.
    pub from: Process,
    /// Number of the sender's descriptor that is a challenge for the receiver; -1 if there is none.
    pub place: i32,
    /// Random name of the receiver's challenge; zeros if the sender has not read the name.
    pub shown: [u8; 16],
}

/// Length of an encoded [`Introduction`] in bytes.
pub const INTRODUCTION: usize = 40;
const MAGIC: [u8; 8] = *b"SOVIANC2";

impl Introduction {
    /// Encodes the message.
    pub fn encode(&self) -> [u8; INTRODUCTION] {
        let mut out = [0; INTRODUCTION];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&self.from.pid.to_le_bytes());
        out[12..16].copy_from_slice(&self.place.to_le_bytes());
        out[16..24].copy_from_slice(&self.from.nonce.to_le_bytes());
        out[24..40].copy_from_slice(&self.shown);
        out
    }

    /// Decodes a message. Returns `None` if `bytes` are not a message of this version.
    pub fn decode(bytes: &[u8]) -> Option<Introduction> {
        let bytes: &[u8; INTRODUCTION] = bytes.try_into().ok()?;
        let pid = i32::from_le_bytes(bytes[8..12].try_into().ok()?);
        let place = i32::from_le_bytes(bytes[12..16].try_into().ok()?);
        let nonce = u64::from_le_bytes(bytes[16..24].try_into().ok()?);
        let shown = bytes[24..40].try_into().ok()?;
        (bytes[0..8] == MAGIC).then_some(Introduction {
            from: Process { pid, nonce },
            place,
            shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_roles_and_introductions_survive_their_encoding() {
        for (connector, acceptor) in [("127.0.0.1:5", "[::1]:6"), ("[fe80::1]:7", "10.0.0.1:8")] {
            let link = Link {
                connector: connector.parse().unwrap(),
                acceptor: acceptor.parse().unwrap(),
                cookie: u64::MAX - 1,
            };
            assert_eq!(Link::decode(&link.encode()), Some(link));
            for role in [false, true] {
                assert_eq!(Link::with_role(&link.of_role(role)), Some((link, role)));
            }
            assert_eq!(Link::with_role(&link.encode()), None);
        }
        let introduction =
            Introduction { from: Process { pid: 7, nonce: 9 }, place: -1, shown: [3; 16] };
        let bytes = introduction.encode();
        assert_eq!(Introduction::decode(&bytes), Some(introduction));
        assert_eq!(Introduction::decode(&bytes[1..]), None);
        let mut other = bytes;
        other[7] += 1;
        assert_eq!(Introduction::decode(&other), None);
    }
}
