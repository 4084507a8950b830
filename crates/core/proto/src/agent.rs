//! Messages between a program and the agent of its host.
//!
//! A program with one end of a connection may be unable to see the process with the other end. The program then
//! sends a query to the agent. The agent receives the queries of both programs. It asks the kernel to confirm that
//! the programs' sockets are the two ends of *one* connection. Then the agent gives each program one end of a pair
//! of Unix sockets. The programs use this pair for their rendezvous.

use crate::rendezvous::LINK;

/// Path of the socket at which programs reach the agent of their host.
pub const PATH: &str = "/run/sovia/agent";

/// Content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// From a program: a query for the other end of this connection, encoded by
    /// [`Link::of_role`](crate::rendezvous::Link::of_role).
    Query([u8; LINK]),
    /// From a program: withdraws the query with the same id.
    Forget,
    /// From the agent: the message carries one end of a pair of Unix sockets. The process with the other end of the
    /// connection gets the other end of this pair.
    Found,
}

/// A message between a program and the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentMessage {
    /// Number by which the program identifies the query.
    pub id: u64,
    /// Content of the message.
    pub what: What,
}

/// Length of a message in bytes.
pub const AGENT_MESSAGE: usize = 24 + LINK;
const MAGIC: [u8; 8] = *b"SOVIAAG1";

impl AgentMessage {
    /// Encodes the message.
    pub fn encode(&self) -> [u8; AGENT_MESSAGE] {
        let mut out = [0; AGENT_MESSAGE];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..16].copy_from_slice(&self.id.to_le_bytes());
        out[16] = match &self.what {
            What::Query(link) => {
                out[24..].copy_from_slice(link);
                1
            }
            What::Forget => 2,
            What::Found => 3,
        };
        out
    }

    /// Decodes a message. Returns `None` if `bytes` are not a message of this version.
    pub fn decode(bytes: &[u8]) -> Option<AgentMessage> {
        let bytes: &[u8; AGENT_MESSAGE] = bytes.try_into().ok()?;
        let id = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        let what = match bytes[16] {
            1 => What::Query(bytes[24..].try_into().ok()?),
            2 => What::Forget,
            3 => What::Found,
            _ => return None,
        };
        (bytes[0..8] == MAGIC).then_some(AgentMessage { id, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_encoding_and_junk_does_not_pass() {
        for what in [What::Query([7; LINK]), What::Forget, What::Found] {
            let bytes = AgentMessage { id: 1 << 40, what }.encode();
            assert_eq!(AgentMessage::decode(&bytes), Some(AgentMessage { id: 1 << 40, what }));
            assert_eq!(AgentMessage::decode(&bytes[1..]), None);
            for (at, with) in [(7, b'2'), (16, 0), (16, 4)] {
                let mut other = bytes;
                other[at] = with;
                assert_eq!(AgentMessage::decode(&other), None);
            }
        }
    }
}
