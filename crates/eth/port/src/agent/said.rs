//! What a program and its agent say to each other beside frames, on a Unix socket that keeps messages apart.
//!
//! The agent welcomes a program, and hands it the memory, or refuses it. The program says at which discriminators it is to be
//! asked for connections. Either rings the other by a message of one byte.

use super::ring::Geometry;
use crate::Address;
use sovia_sys::datagram::Name;

/// The abstract name of an agent's socket, before the name by which programs know it.
const NAME: &[u8] = b"sovia-port/";
/// Bytes that an agent's name may have.
pub const NAME_MAX: usize = 32;
/// Bytes that a discriminator may have.
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

/// The socket of the agent of that name; `None` if it is no name: letters, digits, `-` and `_`.
pub fn socket_of(name: &str) -> Option<Name> {
    let is_legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let fits = (1..=NAME_MAX).contains(&name.len()) && name.as_bytes().iter().all(is_legal);
    if fits { Name::new(&[NAME, name.as_bytes()].concat()) } else { None }
}

/// What an agent tells a program that it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// The first 16 bits of each name that the program may give to an end of a connection; not zero.
    pub prefix: u16,
    /// Whether frames travel on a link that finds corrupt ones by itself.
    pub link_checks: bool,
    /// The agent's address, at which its programs are reached.
    pub own: Address,
    /// How the memory is divided that comes with it.
    pub geometry: Geometry,
}

/// What an agent says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromAgent {
    /// With the memory.
    Welcome(Welcome),
    /// It does not serve the program, and why.
    Refused(Why),
    /// There are frames.
    Bell,
}

/// Why an agent does not serve a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It does not serve that user.
    User = 1,
    /// It serves as many programs of that user as it can.
    Full = 2,
}

/// What a program says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromProgram<'a> {
    /// There are frames.
    Bell,
    /// It is to be asked for connections at that discriminator.
    Listen(&'a [u8]),
    /// It is not just now, and has not left it to others.
    Pause(&'a [u8]),
    /// It is not any more.
    Leave(&'a [u8]),
}

impl FromAgent {
    /// Its bytes.
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

    /// The message that `bytes` are; `None` if they are none, or of another version.
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
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let with = |kind: u8, discriminator: &[u8]| [&[kind], discriminator].concat();
        match self {
            FromProgram::Bell => vec![BELL],
            FromProgram::Listen(at) => with(LISTEN, at),
            FromProgram::Pause(at) => with(PAUSE, at),
            FromProgram::Leave(at) => with(LEAVE, at),
        }
    }

    /// The message that `bytes` are; `None` if they are none.
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
        // The magic, the version, the prefix, the flag, zeros, slots that are no power of two, the address's kind.
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
