//! How a connection and a process are named to another process, and how a program introduces itself to a NIC.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of an encoded [`Link`]: as many as a VI's discriminator has.
pub const LINK: usize = 96;
/// Where a request to a NIC says which end of the connection it is for ([`Link::of_role`]).
const ROLE: usize = 48;

/// A process, told apart from all that had its number before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// A number of its own, drawn at random.
    pub nonce: u64,
}

/// A connection by its addresses, and the kernel's cookie of the speaker's end of it.
///
/// ```
/// use sovia_proto::meeting::Link;
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
    /// The kernel's cookie of the speaker's socket.
    pub cookie: u64,
}

impl Link {
    /// The form in which a segment's table of requests has it.
    pub fn encode(&self) -> [u8; LINK] {
        let mut out = [0; LINK];
        put_address(&mut out[0..20], self.connector);
        put_address(&mut out[20..40], self.acceptor);
        out[40..48].copy_from_slice(&self.cookie.to_le_bytes());
        out
    }

    /// The link that was encoded; `None` if `bytes` are none.
    pub fn decode(bytes: &[u8; LINK]) -> Option<Link> {
        Some(Link {
            connector: get_address(&bytes[0..20])?,
            acceptor: get_address(&bytes[20..40])?,
            cookie: u64::from_le_bytes(bytes[40..48].try_into().ok()?),
        })
    }

    /// Whether both mean the same connection, whichever end speaks.
    pub fn same_connection(&self, other: &Link) -> bool {
        self.connector == other.connector && self.acceptor == other.acceptor
    }

    /// The same, as an end asks a NIC for a VI.
    pub fn of_role(&self, is_connector: bool) -> [u8; LINK] {
        let mut out = self.encode();
        out[ROLE] = 1 + u8::from(is_connector);
        out
    }

    /// The other way round: the link, and whether its connector asks.
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

/// The abstract Unix name at which a NIC of that name hears programs of its host.
pub const NIC_NAME: &str = "sovia-nic/";
/// The longest name of a NIC, in bytes.
pub const NIC_NAME_MAX: usize = 32;

/// What a program and a NIC say to each other, in turn:
///
/// 1. the program: where its challenge lies, which a process can read that could trace it;
/// 2. the NIC: what that says, and where its own challenge lies;
/// 3. the program: what that says; with it come the segment, the program's doorbells and what tells of its death;
/// 4. the NIC: with it come its doorbells and what tells of its death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Introduction {
    /// The speaker.
    pub from: Process,
    /// The number of the speaker's descriptor that is the hearer's challenge; -1: none.
    pub place: i32,
    /// What the hearer's challenge says; zeros if that is not known.
    pub shown: [u8; 16],
}

/// Bytes of an [`Introduction`].
pub const INTRODUCTION: usize = 40;
const MAGIC: [u8; 8] = *b"SOVIANC2";

impl Introduction {
    /// Its bytes.
    pub fn encode(&self) -> [u8; INTRODUCTION] {
        let mut out = [0; INTRODUCTION];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&self.from.pid.to_le_bytes());
        out[12..16].copy_from_slice(&self.place.to_le_bytes());
        out[16..24].copy_from_slice(&self.from.nonce.to_le_bytes());
        out[24..40].copy_from_slice(&self.shown);
        out
    }

    /// The introduction that `bytes` are; `None` if they are none, or of another version.
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
