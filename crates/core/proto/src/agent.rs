//! What a program and the agent of its host say to each other.
//!
//! A program that has one end of a connection, and cannot see the process with the other one, seeks it: the agent hears both,
//! has the kernel show that theirs are the two ends of *one* connection, and gives each an end of a socket between
//! them. On that they meet as two processes do that see each other.

use crate::meeting::LINK;

/// Where programs find the agent of their host.
pub const PATH: &str = "/run/sovia/agent";

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The program has an end of a connection, as [`Link::of_role`](crate::meeting::Link::of_role) says it, and seeks the
    /// other one.
    Seek([u8; LINK]),
    /// It seeks it no longer.
    Forget,
    /// The agent: here is an end of a socket to the process with the other end.
    Found,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// By what number the program knows what it seeks.
    pub id: u64,
    /// What it says.
    pub what: What,
}

/// Bytes of a message.
pub const SAID: usize = 24 + LINK;
const MAGIC: [u8; 8] = *b"SOVIAAG1";

impl Said {
    /// Its bytes.
    pub fn encode(&self) -> [u8; SAID] {
        let mut out = [0; SAID];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..16].copy_from_slice(&self.id.to_le_bytes());
        out[16] = match &self.what {
            What::Seek(link) => {
                out[24..].copy_from_slice(link);
                1
            }
            What::Forget => 2,
            What::Found => 3,
        };
        out
    }

    /// The message that `bytes` are; `None` if they are none, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Said> {
        let bytes: &[u8; SAID] = bytes.try_into().ok()?;
        let id = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        let what = match bytes[16] {
            1 => What::Seek(bytes[24..].try_into().ok()?),
            2 => What::Forget,
            3 => What::Found,
            _ => return None,
        };
        (bytes[0..8] == MAGIC).then_some(Said { id, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_encoding_and_junk_does_not_pass() {
        for what in [What::Seek([7; LINK]), What::Forget, What::Found] {
            let bytes = Said { id: 1 << 40, what }.encode();
            assert_eq!(Said::decode(&bytes), Some(Said { id: 1 << 40, what }));
            assert_eq!(Said::decode(&bytes[1..]), None);
            for (at, with) in [(7, b'2'), (16, 0), (16, 4)] {
                let mut other = bytes;
                other[at] = with;
                assert_eq!(Said::decode(&other), None);
            }
        }
    }
}
