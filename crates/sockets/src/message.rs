//! Messages of a first rendezvous between two processes.
//!
//! Messages have a fixed size and a version. The receiver checks every field.

pub(crate) use sovia_proto::rendezvous::{LINK as LINK_LEN, Link, Process};
use sovia_sys::trace::Secret;

const MAGIC: [u8; 8] = *b"SOVIAMT\0";
/// Version of the messages. The version changes if an older build could not share a segment with this one. The test
/// suite `hostile` has a copy of this number.
const VERSION: u32 = 5;
/// Length of a message in bytes.
pub(crate) const LEN: usize = SHOWN_AT + size_of::<Secret>();
const SHOWN_AT: usize = 32 + LINK_LEN;

/// Kinds of messages of a first rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum MessageKind {
    /// Acceptor to connector's datagram name: says that the acceptor has the other end.
    Hello = 1,
    /// Connector to acceptor: passes the segment and the connector's doorbells.
    Offer = 2,
    /// Acceptor to connector: passes the acceptor's doorbells.
    Accept = 3,
    /// Connector to acceptor: asks the acceptor to read the connector's challenge. This shows that the acceptor
    /// could trace the connector.
    Ask = 4,
    /// Acceptor to connector: returns the content of the connector's challenge, and names the acceptor's challenge.
    Show = 5,
    /// Acceptor to connector's datagram name: says that several processes have the other end, so the connection
    /// stays on TCP.
    Stay = 6,
}

/// A message of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: MessageKind,
    pub(crate) from: Process,
    pub(crate) link: Link,
    /// In an Ask or a Show: number of the sender's descriptor with the challenge for the receiver. Else -1.
    pub(crate) place: i32,
    /// In a Show or an Offer: content of the receiver's challenge, which the sender has read.
    pub(crate) shown: Secret,
}

/// Reason why received bytes are not a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Junk {
    /// The bytes are not a message of Sovia, or only a part of one.
    Shape,
    /// The message has another version.
    Version,
}

impl Message {
    /// Returns a message that has no challenge and answers none.
    pub(crate) fn new(kind: MessageKind, from: Process, link: Link) -> Message {
        Message { kind, from, link, place: -1, shown: Secret::default() }
    }

    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        out[16..20].copy_from_slice(&self.from.pid.to_le_bytes());
        out[20..24].copy_from_slice(&self.place.to_le_bytes());
        out[24..32].copy_from_slice(&self.from.nonce.to_le_bytes());
        out[32..SHOWN_AT].copy_from_slice(&self.link.encode());
        out[SHOWN_AT..].copy_from_slice(&self.shown);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, Junk> {
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| Junk::Shape)?;
        if bytes[0..8] != MAGIC {
            return Err(Junk::Shape);
        }
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if u32_at(8) != VERSION {
            return Err(Junk::Version);
        }
        let kind = match u32_at(12) {
            1 => MessageKind::Hello,
            2 => MessageKind::Offer,
            3 => MessageKind::Accept,
            4 => MessageKind::Ask,
            5 => MessageKind::Show,
            6 => MessageKind::Stay,
            _ => return Err(Junk::Shape),
        };
        let mut nonce = [0; 8];
        nonce.copy_from_slice(&bytes[24..32]);
        let mut link = [0; LINK_LEN];
        link.copy_from_slice(&bytes[32..SHOWN_AT]);
        let mut shown = Secret::default();
        shown.copy_from_slice(&bytes[SHOWN_AT..]);
        Ok(Message {
            kind,
            from: Process { pid: u32_at(16) as i32, nonce: u64::from_le_bytes(nonce) },
            link: Link::decode(&link).ok_or(Junk::Shape)?,
            place: u32_at(20) as i32,
            shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_encoding_and_junk_does_not_pass() {
        let message = Message {
            kind: MessageKind::Offer,
            from: Process { pid: 42, nonce: 7 },
            link: Link {
                connector: "127.0.0.1:5".parse().unwrap(),
                acceptor: "[::1]:6".parse().unwrap(),
                cookie: 9,
            },
            place: 1023,
            shown: [5; 16],
        };
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Ok(message));
        assert_eq!(Message::decode(&bytes[..LEN - 1]), Err(Junk::Shape));
        let mut other = bytes;
        other[8] += 1;
        assert_eq!(Message::decode(&other), Err(Junk::Version));
        other = bytes;
        other[12] = 9;
        assert_eq!(Message::decode(&other), Err(Junk::Shape));
        other = bytes;
        other[32] = 5;
        assert_eq!(Message::decode(&other), Err(Junk::Shape));
    }
}
