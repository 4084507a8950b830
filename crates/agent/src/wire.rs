//! Encoding of the messages between two NICs: their programs' requests for connections, and events of one VI. A
//! message of the channel is a bundle of these messages. Each is preceded by its length (u32, little-endian).
//!
//! | kind | fields, little-endian | meaning |
//! |---|---|---|
//! | 1 `Offer` | id u64, link and role (96 bytes), numbers received u32 and sent u32 | a program of the sender
//! requests this connection |
//! | 2 `Withdraw` | id u64 | the program no longer requests it |
//! | 3 `About` | id u64, bytes | an event of the receiver's VI `id` |
//! | 4 `Broken` | id u64 | the receiver's VI `id` is broken |
//! | 5 `Here` | 0 u64 | nothing: its frames show if the receiver is alive |

use crate::numbers::Numbers;
use sovia_proto::rendezvous::{LINK, Link};
use sovia_reflect::Malformed;

/// Number that a NIC has given to one of its VIs.
pub(crate) type Id = u64;

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// The sender's VI with this id is for this connection. The flag is true if the sender's program is the
    /// connector. The numbers are those of the program's socket.
    Offer(Id, Link, bool, Numbers),
    /// The sender's VI with this id no longer exists.
    Withdraw(Id),
    /// An event of the receiver's VI with this id.
    About(Id, &'a [u8]),
    /// The receiver's VI with this id is broken.
    Broken(Id),
    /// The sender is alive. The frames of this message show if the receiver is.
    Here,
}

/// Appends the beginning of a [`Message::About`]. The caller appends the rest.
pub(crate) fn begin_about(id: Id, out: &mut Vec<u8>) {
    Message::About(id, &[]).encode(out);
}

impl<'a> Message<'a> {
    /// Appends the message to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut begin = |kind: u8, id: Id| {
            out.push(kind);
            out.extend_from_slice(&id.to_le_bytes());
        };
        match self {
            Message::Offer(id, link, is_connector, numbers) => {
                begin(1, *id);
                out.extend_from_slice(&link.of_role(*is_connector));
                out.extend_from_slice(&numbers.received.to_le_bytes());
                out.extend_from_slice(&numbers.sent.to_le_bytes());
            }
            Message::Withdraw(id) => begin(2, *id),
            Message::About(id, bytes) => {
                begin(3, *id);
                out.extend_from_slice(bytes);
            }
            Message::Broken(id) => begin(4, *id),
            Message::Here => begin(5, 0),
        }
    }

    /// Decodes a message. `bytes` must be exactly one message.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let cut = Malformed("a truncated message");
        let (kind, rest) = bytes.split_first().ok_or(cut)?;
        let (id, rest) = rest.split_first_chunk().ok_or(cut)?;
        let id = u64::from_le_bytes(*id);
        match (kind, rest) {
            (1, rest) => {
                let (link, numbers) = rest.split_first_chunk::<LINK>().ok_or(cut)?;
                let numbers: &[u8; 8] = numbers.try_into().map_err(|_| cut)?;
                let [received, sent] =
                    [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|i| numbers[at + i])));
                let (link, is_connector) =
                    Link::with_role(link).ok_or(Malformed("an offer without a connection"))?;
                Ok(Message::Offer(id, link, is_connector, Numbers { received, sent }))
            }
            (2, []) => Ok(Message::Withdraw(id)),
            (3, rest) => Ok(Message::About(id, rest)),
            (4, []) => Ok(Message::Broken(id)),
            (5, []) => Ok(Message::Here),
            _ => Err(Malformed("a message of an unknown kind")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_encoding_and_nothing_shorter_is_one() {
        let link = Link {
            connector: "10.0.0.1:5".parse().unwrap(),
            acceptor: "[::1]:6".parse().unwrap(),
            cookie: 7,
        };
        let messages = [
            Message::Offer(1, link, true, Numbers { received: 8, sent: u32::MAX }),
            Message::Offer(2, link, false, Numbers { received: 0, sent: 9 }),
            Message::Withdraw(3),
            Message::Broken(4),
            Message::Here,
        ];
        let mut bytes = Vec::new();
        for message in messages {
            bytes.clear();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes), Ok(message));
            for len in 0..bytes.len() {
                assert!(Message::decode(&bytes[..len]).is_err());
            }
            bytes.push(0);
            assert!(Message::decode(&bytes).is_err());
        }
        bytes.clear();
        Message::About(5, b"words").encode(&mut bytes);
        assert_eq!(Message::decode(&bytes), Ok(Message::About(5, b"words")));
    }
}
