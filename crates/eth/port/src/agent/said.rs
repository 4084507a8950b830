//! Messages between a program and its agent, besides frames, on a Unix socket that preserves message boundaries.
//!
//! The agent welcomes a program and passes the shared memory, or refuses the program. The program reports the
//! discriminators at which it listens for connections. Either end wakes the other end by a message of one byte.

use super::ring::Geometry;
use crate::Address;
use sovia_sys::datagram::Name;

/// Prefix of the abstract socket names of agents.
const NAME: &[u8] = b"sovia-port/";
/// Maximum number of bytes of an agent's name.
pub const NAME_MAX: usize = 32;
/// Maximum number of bytes of a discriminator.
pub const DISCRIMINATOR_MAX: usize = 64;
/// Bytes of the longest message.
pub const SAID_MAX: usize = WELCOME;

const MAGIC: [u8; 7] = *b"SOVIAPT";
const VERSION: u8 = 1;
const WELCOME: usize = 48;

/// First bytes of messages.
const BELL: u8 = 0;
const LISTEN: u8 = 1;
const LEAVE: u8 = 2;
const REFUSED: u8 = 3;
const PAUSE: u8 = 4;

/// Returns the socket name of an agent; `None` if `name` is invalid. A name consists of letters, digits, `-` and `_`.
pub fn socket_of(name: &str) -> Option<Name> {
    let is_legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let fits = (1..=NAME_MAX).contains(&name.len()) && name.as_bytes().iter().all(is_legal);
    if fits { Name::new(&[NAME, name.as_bytes()].concat()) } else { None }
}

/// The agent's message to a program that it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// The first 16 bits of all names that the program may give to ends of connections. Not zero.
    pub prefix: u16,
    /// Set if the link detects corrupt frames.
    pub link_checks: bool,
    /// The agent's address, at which peers reach its programs.
    pub own: Address,
    /// Layout of the memory that comes with this message.
    pub geometry: Geometry,
}

/// A message from an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromAgent {
    /// The agent serves the program. The message carries the memory.
    Welcome(Welcome),
    /// The agent does not serve the program, with the reason.
    Refused(Why),
    /// Wakes the program: frames have arrived.
    Bell,
}

/// Reason why an agent refuses a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The agent does not serve this user.
    User = 1,
    /// The agent already serves its maximum of programs for this user.
    Full = 2,
}

/// A message from a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromProgram<'a> {
    /// Wakes the agent: frames have arrived.
    Bell,
    /// The program listens at this discriminator.
    Listen(&'a [u8]),
    /// The program does not listen at this discriminator at the moment, but still owns the discriminator.
    Pause(&'a [u8]),
    /// The program no longer listens at this discriminator.
    Leave(&'a [u8]),
}

impl FromAgent {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromAgent::Bell => vec![BELL],
            FromAgent::Refused(why) => vec![REFUSED, *why as u8],
            FromAgent::Welcome(welcome) => {
                let Welcome { prefix, link_checks, own, geometry } = welcome;
                let mut bytes = Vec::with_capacity(WELCOME);
                bytes.extend(MAGIC);
                bytes.push(VERSION);
                bytes.extend(prefix.to_le_bytes());
                bytes.extend([u8::from(*link_checks), 0, 0, 0, 0, 0]);
                bytes.extend(geometry.frame_max().to_le_bytes());
                bytes.extend(geometry.count().to_le_bytes());
                own.words().iter().for_each(|word| bytes.extend(word.to_le_bytes()));
                bytes
            }
        }
    }

    /// Decodes a message; `None` if `bytes` are no message, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<FromAgent> {
        match bytes {
            [BELL] => return Some(FromAgent::Bell),
            [REFUSED, 1] => return Some(FromAgent::Refused(Why::User)),
            [REFUSED, 2] => return Some(FromAgent::Refused(Why::Full)),
            _ => {}
        }
        let bytes: &[u8; WELCOME] = bytes.try_into().ok()?;
        let word = |at: usize| {
            let word: [u8; 4] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_le_bytes(word)
        };
        let long = |at| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let prefix = u16::from_le_bytes([bytes[8], bytes[9]]);
        let is_ours = bytes[..7] == MAGIC && bytes[7] == VERSION && bytes[10] <= 1;
        let rest_is_zero = bytes[11..16] == [0; 5];
        (is_ours && rest_is_zero && prefix != 0).then_some(())?;
        Some(FromAgent::Welcome(Welcome {
            prefix,
            link_checks: bytes[10] == 1,
            own: Address::of_words([24, 32, 40].map(long))?,
            geometry: Geometry::told(word(16), word(20))?,
        }))
    }
}

impl<'a> FromProgram<'a> {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let with = |kind: u8, discriminator: &[u8]| [&[kind], discriminator].concat();
        match self {
            FromProgram::Bell => vec![BELL],
            FromProgram::Listen(at) => with(LISTEN, at),
            FromProgram::Pause(at) => with(PAUSE, at),
            FromProgram::Leave(at) => with(LEAVE, at),
        }
    }

    /// Decodes a message; `None` if `bytes` are no message.
    pub fn decode(bytes: &'a [u8]) -> Option<FromProgram<'a>> {
        match bytes {
            [BELL] => Some(FromProgram::Bell),
            [LISTEN, at @ ..] if at.len() <= DISCRIMINATOR_MAX => Some(FromProgram::Listen(at)),
            [PAUSE, at @ ..] if at.len() <= DISCRIMINATOR_MAX => Some(FromProgram::Pause(at)),
            [LEAVE, at @ ..] if at.len() <= DISCRIMINATOR_MAX => Some(FromProgram::Leave(at)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_their_encoding() {
        let welcome = Welcome {
            prefix: 0x1234,
            link_checks: true,
            own: Address::Udp("[fe80::1%7]:7000".parse().unwrap()),
            geometry: Geometry::of(1500).unwrap(),
        };
        let (full, user) = (FromAgent::Refused(Why::Full), FromAgent::Refused(Why::User));
        for said in [FromAgent::Welcome(welcome), full, user, FromAgent::Bell] {
            assert_eq!(FromAgent::decode(&said.encode()), Some(said));
        }
        let at = [7; DISCRIMINATOR_MAX];
        for said in [
            FromProgram::Bell,
            FromProgram::Listen(b""),
            FromProgram::Listen(&at),
            FromProgram::Pause(b"at"),
            FromProgram::Leave(b"at"),
        ] {
            assert_eq!(FromProgram::decode(&said.encode()), Some(said));
        }
    }

    #[test]
    fn other_bytes_are_no_messages() {
        for bytes in [&[][..], &[0, 0], &[5], &[1; DISCRIMINATOR_MAX + 2]] {
            assert_eq!(FromProgram::decode(bytes), None);
        }
        let own = Address::Mac([2, 0, 0, 0, 0, 1]);
        let geometry = Geometry::of(1500).unwrap();
        let welcome = Welcome { prefix: 1, link_checks: false, own, geometry };
        let bytes = FromAgent::Welcome(welcome).encode();
        // Corrupts in turn: the magic, the version, the prefix, the flag, the zeros, the number of slots, and the kind
        // of the address.
        for (at, with) in [(0, 0), (7, 2), (8, 0), (10, 2), (12, 1), (20, 3), (24, 9)] {
            let mut other = bytes.clone();
            other[at] = with;
            assert_eq!(FromAgent::decode(&other), None, "byte {at}");
        }
        assert_eq!(FromAgent::decode(&bytes[1..]), None);
    }

    #[test]
    fn names_of_agents_are_words() {
        assert!(socket_of("lan0").is_some() && socket_of(&"x".repeat(NAME_MAX)).is_some());
        for name in ["", "a b", "a/b", &"x".repeat(NAME_MAX + 1)] {
            assert_eq!(socket_of(name), None);
        }
    }
}
