//! One rule's conditions (its SPEC): ports, the peer's address, the program's name, which end of the connection it is
//! for; and which NIC or users the rule names.

use crate::users::{self, Users};
use alloc::string::{String, ToString};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Longest program name in a rule, in bytes: the longest name that a file can have.
pub const NAME_BYTES_MAX: usize = 255;

/// A rule that cannot be understood: the term at fault and what would have been right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    term: String,
    fault: RuleFault,
}

/// What is wrong with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleFault {
    /// None of `only:`, `except:`, `respect-filters:`, `trust:` and `nic:`.
    Effect,
    /// A rule or term with nothing in it.
    Empty,
    /// Not one of the known keys.
    Key,
    /// Not a port or range of ports.
    Port,
    /// Not an address, or a prefix longer than the address.
    Address,
    /// Not the name of a file.
    Program,
    /// Not an end of a connection.
    End,
    /// Not the name of a NIC, or one where none is to be named, or none where one is.
    Nic,
    /// Not users, or some where none are to be named, or none where some are.
    User,
    /// A user's or a group's name in a place where only numbers are known.
    UserName,
    /// A key twice in one rule.
    Twice,
    /// More rules than fit.
    TooMany,
}

impl RuleError {
    pub(crate) fn new(term: &str, fault: RuleFault) -> Self {
        Self { term: term.to_string(), fault }
    }

    /// The part of the text at fault.
    pub fn term(&self) -> &str {
        &self.term
    }

    /// What is wrong with it.
    pub fn fault(&self) -> RuleFault {
        self.fault
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = match self.fault {
            RuleFault::Effect => {
                "a rule starts with `only:`, `except:`, `respect-filters:`, `trust:` or `nic:`"
            }
            RuleFault::Empty => "a rule needs at least one term, such as `port=6379`",
            RuleFault::Key => {
                "a term is `port=`, `addr=`, `program=` or `end=` with a value; a rule `trust:` also takes `user=`, `uid=`, `group=` or `any`, and a rule `nic:` takes `name=`"
            }
            RuleFault::Port => "expected a port from 1 to 65535, or a range such as `6000-6100`",
            RuleFault::Address => {
                "expected an address such as `127.0.0.1`, `10.0.0.0/8` or `fd00::/8`"
            }
            RuleFault::Program => {
                "expected the file name of a program, at most 255 bytes, without folder, `,` or `;`"
            }
            RuleFault::End => "expected `connector` or `acceptor`",
            RuleFault::Nic => {
                "a rule `nic:` needs `name=` with at most 32 letters, digits, `-` and `_`, as in `name=a`; no other rule takes `name=`"
            }
            RuleFault::User => {
                "a rule `trust:` needs users, as in `user=redis`, `uid=112`, `group=web` or `any`; no other rule takes users"
            }
            RuleFault::UserName => {
                "the library knows users only by number: write `uid=112`, or give the rule to `sovia run`"
            }
            RuleFault::Twice => "a rule may have each term only once",
            RuleFault::TooMany => "there may be at most 32 rules",
        };
        write!(f, "bad rule at `{}`: {expected}", self.term)
    }
}

impl core::error::Error for RuleError {}

/// All conditions of one rule; every one that is there must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    ports: Option<Ports>,
    net: Option<Net>,
    program: Option<Name>,
    end: Option<End>,
    nic: Option<NicName>,
    users: Option<Users>,
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that has connected.
    Connector,
    /// The one that has accepted.
    Acceptor,
}

impl Spec {
    pub(crate) fn parse(text: &str) -> Result<Self, RuleError> {
        let mut spec =
            Self { ports: None, net: None, program: None, end: None, nic: None, users: None };
        for term in text.split(',') {
            let term = term.trim();
            if term.is_empty() {
                return Err(RuleError::new(text.trim(), RuleFault::Empty));
            }
            let fail = |fault| RuleError::new(term, fault);
            if term == users::ANY {
                if spec.users.replace(Users::Any).is_some() {
                    return Err(fail(RuleFault::Twice));
                }
                continue;
            }
            let (key, value) = term.split_once('=').ok_or(fail(RuleFault::Key))?;
            let (key, value) = (key.trim(), value.trim());
            let twice = match key {
                "port" => {
                    spec.ports.replace(Ports::parse(value).ok_or(fail(RuleFault::Port))?).is_some()
                }
                "addr" => {
                    spec.net.replace(Net::parse(value).ok_or(fail(RuleFault::Address))?).is_some()
                }
                "program" => spec
                    .program
                    .replace(Name::parse(value).ok_or(fail(RuleFault::Program))?)
                    .is_some(),
                "end" => spec
                    .end
                    .replace(match value {
                        "connector" => End::Connector,
                        "acceptor" => End::Acceptor,
                        _ => return Err(fail(RuleFault::End)),
                    })
                    .is_some(),
                "name" => {
                    spec.nic.replace(NicName::parse(value).ok_or(fail(RuleFault::Nic))?).is_some()
                }
                "uid" => {
                    spec.users.replace(Users::parse(value).ok_or(fail(RuleFault::User))?).is_some()
                }
                "user" | "group" => return Err(fail(RuleFault::UserName)),
                _ => return Err(fail(RuleFault::Key)),
            };
            if twice {
                return Err(fail(RuleFault::Twice));
            }
        }
        Ok(spec)
    }

    pub(crate) fn nic(&self) -> Option<&NicName> {
        self.nic.as_ref()
    }

    /// The users whom the rule trusts.
    pub(crate) fn users(&self) -> Option<Users> {
        self.users
    }

    /// Whether connections of that program may match.
    pub(crate) fn is_for(&self, program: &[u8]) -> bool {
        self.program.as_ref().is_none_or(|name| name.is(program))
    }

    /// Whether all connections of the programs that it is for match.
    pub(crate) fn is_for_all(&self) -> bool {
        self.ports.is_none() && self.net.is_none() && self.end.is_none()
    }

    pub(crate) fn matches(
        &self,
        program: &[u8],
        end: End,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> bool {
        self.ports.is_none_or(|ports| ports.contains(local.port()) || ports.contains(peer.port()))
            && self.net.is_none_or(|net| net.contains(peer.ip()))
            && self.is_for(program)
            && self.end.is_none_or(|only| only == end)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        if let Some(ports) = &self.ports {
            write!(f, "port={ports}")?;
            comma = ",";
        }
        if let Some(net) = &self.net {
            write!(f, "{comma}addr={net}")?;
            comma = ",";
        }
        if let Some(name) = &self.program {
            write!(f, "{comma}program={name}")?;
            comma = ",";
        }
        if let Some(end) = self.end {
            let word = if end == End::Connector { "connector" } else { "acceptor" };
            write!(f, "{comma}end={word}")?;
            comma = ",";
        }
        if let Some(nic) = &self.nic {
            write!(f, "{comma}name={}", nic.as_str())?;
            comma = ",";
        }
        if let Some(users) = &self.users {
            write!(f, "{comma}{users}")?;
        }
        Ok(())
    }
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first > 0 && first <= last).then_some(Self { first, last })
    }

    fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// Addresses with a common prefix. IPv4 is kept as `::ffff:a.b.c.d`, because a program that
/// listens on `::` sees its IPv4 peers that way and a rule must mean the same for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Net {
    /// The prefix's bits; zero behind them.
    bits: u128,
    /// Length of the prefix in bits, up to 128.
    prefix_bits: u8,
}

/// Where an IPv4 address begins in the IPv6 address that stands for it.
const MAPPED_PREFIX_BITS: u8 = 96;

impl Net {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address.trim(), Some(prefix.trim().parse::<u8>().ok()?)),
            None => (text, None),
        };
        let (longest, offset) = match address.parse().ok()? {
            IpAddr::V4(_) => (32, MAPPED_PREFIX_BITS),
            IpAddr::V6(_) => (128, 0),
        };
        let prefix_bits = prefix.unwrap_or(longest);
        if prefix_bits > longest {
            return None;
        }
        let prefix_bits = prefix_bits + offset;
        let bits = mapped(address.parse().ok()?).to_bits() & mask(prefix_bits);
        Some(Self { bits, prefix_bits })
    }

    fn contains(self, address: IpAddr) -> bool {
        mapped(address).to_bits() & mask(self.prefix_bits) == self.bits
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.bits);
        match address.to_ipv4_mapped() {
            Some(v4) if self.prefix_bits == 128 => write!(f, "{v4}"),
            Some(v4) if self.prefix_bits >= MAPPED_PREFIX_BITS => {
                write!(f, "{v4}/{}", self.prefix_bits - MAPPED_PREFIX_BITS)
            }
            _ if self.prefix_bits == 128 => write!(f, "{address}"),
            _ => write!(f, "{address}/{}", self.prefix_bits),
        }
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The highest `prefix_bits` bits set.
fn mask(prefix_bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix_bits)).unwrap_or(0)
}

/// The file name of a program, in place, so that rules need no allocator.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    len: u8,
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        let len = u8::try_from(text.len()).ok().filter(|&len| len > 0)?;
        if text.contains(['/', ';', ',', '\0']) {
            return None;
        }
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(Self { bytes, len })
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether `program`, a path or a file name, has this file name.
    fn is(&self, program: &[u8]) -> bool {
        program.rsplit(|&byte| byte == b'/').next() == Some(self.as_bytes())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Always whole characters: it was made from a `str`.
        f.write_str(core::str::from_utf8(self.as_bytes()).unwrap_or_default())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Longest name of a NIC in a rule, in bytes.
const NIC_NAME_BYTES_MAX: usize = 32;

/// The name of a NIC, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicName {
    bytes: [u8; NIC_NAME_BYTES_MAX],
    len: u8,
}

impl NicName {
    /// The name, if it is one: letters, digits, `-` and `_`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let mut bytes = [0; NIC_NAME_BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        let len = text.len() as u8;
        (len > 0 && text.as_bytes().iter().all(is_legal)).then_some(Self { bytes, len })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}
