//! The SPEC of a rule: conditions on ports, the peer's address, the program's name and the end of the connection. A
//! SPEC may also name a NIC or users.

use crate::users::{self, Users};
use alloc::string::{String, ToString};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Maximum length of a program's name in a rule, in bytes. A file name cannot be longer.
pub const NAME_BYTES_MAX: usize = 255;

/// Error in the text of a rule: the wrong term, and the kind of fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    term: String,
    fault: RuleFault,
}

/// Kind of fault in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleFault {
    /// The rule does not begin with `only:`, `except:`, `respect-filters:`, `trust:` or `nic:`.
    Effect,
    /// A rule or a term is empty.
    Empty,
    /// The key of a term is unknown.
    Key,
    /// The value is not a port or a range of ports.
    Port,
    /// The value is not an address, or the prefix is longer than the address.
    Address,
    /// The value is not a file name.
    Program,
    /// The value of a term `end=` is neither `connector` nor `acceptor`.
    End,
    /// The value is not the name of a NIC, a `nic:` rule names no NIC, or a rule of another kind names a NIC.
    Nic,
    /// The value is not a number from 1 to 65535, or a rule other than a `nic:` rule has `messages=`.
    Messages,
    /// The value is not a user, a `trust:` rule names no users, or a rule of another kind names users.
    User,
    /// The rule has the name of a user or a group, but the library accepts only numbers of users.
    UserName,
    /// A rule has the same key twice.
    Twice,
    /// The list has more than the maximum number of rules.
    TooMany,
}

impl RuleError {
    pub(crate) fn new(term: &str, fault: RuleFault) -> Self {
        Self { term: term.to_string(), fault }
    }

    /// Returns the wrong part of the text.
    pub fn term(&self) -> &str {
        &self.term
    }

    /// Returns the kind of fault.
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
                "a term is `port=`, `addr=`, `program=` or `end=` with a value; a rule `trust:` also takes `user=`, `uid=`, `group=` or `any`, and a rule `nic:` takes `name=` and `messages=`"
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
            RuleFault::Messages => {
                "a rule `nic:` takes `messages=` with a number from 1 to 65535, as in `messages=1`; no other rule takes it"
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

/// Conditions of one rule. A connection must meet all conditions that are not `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    ports: Option<Ports>,
    net: Option<Net>,
    program: Option<Name>,
    end: Option<End>,
    nic: Option<NicName>,
    messages: Option<u16>,
    users: Option<Users>,
}

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that called `connect`.
    Connector,
    /// The end that called `accept`.
    Acceptor,
}

impl Spec {
    pub(crate) fn parse(text: &str) -> Result<Self, RuleError> {
        let mut spec = Self {
            ports: None,
            net: None,
            program: None,
            end: None,
            nic: None,
            messages: None,
            users: None,
        };
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
                "messages" => {
                    let number = value.parse().ok().filter(|&number| number > 0);
                    spec.messages.replace(number.ok_or(fail(RuleFault::Messages))?).is_some()
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

    pub(crate) fn messages(&self) -> Option<u16> {
        self.messages
    }

    /// Returns the users that the rule trusts.
    pub(crate) fn users(&self) -> Option<Users> {
        self.users
    }

    /// Returns true if connections of `program` may match the rule.
    pub(crate) fn is_for(&self, program: &[u8]) -> bool {
        self.program.as_ref().is_none_or(|name| name.is(program))
    }

    /// Returns true if the rule has no condition except the program. Then all connections of this program match the
    /// rule.
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
        if let Some(messages) = self.messages {
            write!(f, "{comma}messages={messages}")?;
            comma = ",";
        }
        if let Some(users) = &self.users {
            write!(f, "{comma}{users}")?;
        }
        Ok(())
    }
}

/// Range of ports, including its first and last port.
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

/// Addresses with a common prefix. IPv4 addresses are stored as `::ffff:a.b.c.d`. A program that listens on `::`
/// sees the addresses of IPv4 peers in this form, and a rule must also match these peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Net {
    /// Bits of the prefix, followed by zeros.
    bits: u128,
    /// Length of the prefix in bits, up to 128.
    prefix_bits: u8,
}

/// Number of bits before the IPv4 address in an IPv4-mapped IPv6 address.
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

/// Returns a number in which only the highest `prefix_bits` bits are 1.
fn mask(prefix_bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix_bits)).unwrap_or(0)
}

/// File name of a program. The value contains the bytes of the name, so that rules need no allocator for names.
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

    /// Returns true if `program` has this file name. `program` is a path or a file name.
    fn is(&self, program: &[u8]) -> bool {
        program.rsplit(|&byte| byte == b'/').next() == Some(self.as_bytes())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Always valid UTF-8: the name comes from a `str`.
        f.write_str(core::str::from_utf8(self.as_bytes()).unwrap_or_default())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A NIC in software by which connections may be accelerated, from a rule `nic:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicRule<'a> {
    /// The NIC's name.
    pub name: &'a NicName,
    /// Number of messages that the process's connectors must have in flight before the NIC carries a connection.
    pub messages: u16,
}

/// Maximum length of a NIC's name in a rule, in bytes.
const NIC_NAME_BYTES_MAX: usize = 32;

/// Name of a NIC. The value contains the bytes of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicName {
    bytes: [u8; NIC_NAME_BYTES_MAX],
    len: u8,
}

impl NicName {
    /// Returns the name if it consists of letters, digits, `-` and `_`, and is neither empty nor too long.
    pub fn parse(text: &str) -> Option<Self> {
        let is_legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let mut bytes = [0; NIC_NAME_BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        let len = text.len() as u8;
        (len > 0 && text.as_bytes().iter().all(is_legal)).then_some(Self { bytes, len })
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}
