//! Encodes and decodes the messages between two NICs about one VI.
//!
//! | kind | fields, little-endian, in this order | sent by the NIC of |
//! |---|---|---|
//! | 0 `Path` | window u64, from u64, switch u64 | the sender |
//! | 1 `Entry` | number u32, immediate u32, pool offset u32 (`u32::MAX`: none), bytes | the sender |
//! | 2 `Coalesced` | after u64, start u64, position u64, bytes | the sender |
//! | 3 `State` | fin u64, ledger u64, drained u64, taken u64, asked u64 | the sender |
//! | 4 `Consumed` | released u64, head u64, taken bytes u64, posted u32 | the receiver |
//! | 5 `Undelivered` | messages and order u64, front u64; for each message: pool offset u32, length u32, and without
//! a pool offset the bytes | the receiver |
//! | 6 `Receiver` | grant u64, claim u64, shut u64, ended u64, returned u64 | the receiver |
//! | 7 `Answer` | bits u64 | the sender |
//! | 8 `Gone` | how u64 | the sender |

use crate::Malformed;
use sovia_ring::endpoint::MESSAGE_MAX;
use sovia_ring::ring::{Entry, INLINE};

/// Maximum length of a message in bytes.
pub const LEN_MAX: usize = MESSAGE_MAX + 64;

/// Words of the path that the sender writes before it puts anything on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// `word::WINDOW`.
    pub window: u64,
    /// `word::FROM`.
    pub from: u64,
    /// `word::SWITCH`.
    pub switch: u64,
}

/// Words that give the sender's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// `word::FIN`.
    pub fin: u64,
    /// `word::LEDGER`.
    pub ledger: u64,
    /// `word::DRAINED`.
    pub drained: u64,
    /// `word::TAKEN`.
    pub taken: u64,
    /// `word::ASKED`.
    pub asked: u64,
}

/// The receiver's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Consumed {
    /// Number of the first entry that the sender may not send yet.
    pub posted: u32,
    /// Pool position up to which the receiver has released bytes.
    pub released: u64,
    /// `word::HEAD`.
    pub head: u64,
    /// `word::TAKEN_BYTES`.
    pub taken_bytes: u64,
}

/// Words of the path that the receiver writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receiver {
    /// `word::GRANT`.
    pub grant: u64,
    /// `word::CLAIM`.
    pub claim: u64,
    /// `word::SHUT`.
    pub shut: u64,
    /// `word::ENDED_ON_TCP`.
    pub ended: u64,
    /// `word::RETURNED`, as the receiver proposes.
    pub returned: u64,
}

/// A message of the ring that the receiver leaves unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left<'a> {
    /// Offset and length of a message in the pool.
    Pooled(u32, u32),
    /// Bytes of an inline message.
    Inline(&'a [u8]),
}

/// A message from the NIC of a direction's sender to the NIC of its receiver, or back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// The sender's words of the path. The remote NIC publishes them before all entries and coalesced bytes that
    /// the sender publishes later.
    Path(Path),
    /// The ring entry with this number.
    Entry(u32, Entry, &'a [u8]),
    /// Coalesced bytes.
    Coalesced {
        /// `word::AFTER`.
        after: u64,
        /// `word::START`.
        start: u64,
        /// Position of the first byte.
        position: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The sender's progress. The remote NIC publishes it after all entries and coalesced bytes that the sender
    /// published earlier.
    State(State),
    /// The receiver's progress.
    Consumed(Consumed),
    /// `word::UNDELIVERED`, `word::FRONT`, and the undelivered messages.
    Undelivered(u64, u64, Vec<Left<'a>>),
    /// The receiver's words. The remote NIC publishes them after the receiver's earlier progress and the undelivered
    /// messages.
    Receiver(Receiver),
    /// The answer to the receiver (`word::ANSWER`). The remote NIC publishes it after all entries and coalesced
    /// bytes that the sender published earlier.
    Answer(u64),
    /// The last message: the sender has left ([`word::ENDED`](sovia_proto::word::ENDED)) or has died.
    Gone(u64),
}

/// Value of the field for the pool offset, if a message has no pool offset.
const NONE: u32 = u32::MAX;

impl<'a> Message<'a> {
    /// Appends the message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut words = |kind: u8, words: &[u64]| {
            out.push(kind);
            words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        };
        match self {
            Message::Path(path) => words(0, &[path.window, path.from, path.switch]),
            Message::Entry(n, entry, bytes) => {
                out.push(1);
                for word in [*n, entry.immediate, entry.pool_offset.unwrap_or(NONE)] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
                out.extend_from_slice(bytes);
            }
            Message::Coalesced { after, start, position, bytes } => {
                words(2, &[*after, *start, *position]);
                out.extend_from_slice(bytes);
            }
            Message::State(s) => words(3, &[s.fin, s.ledger, s.drained, s.taken, s.asked]),
            Message::Consumed(consumed) => {
                words(4, &[consumed.released, consumed.head, consumed.taken_bytes]);
                out.extend_from_slice(&consumed.posted.to_le_bytes());
            }
            Message::Undelivered(undelivered, front, left) => {
                words(5, &[*undelivered, *front]);
                for left in left {
                    let (at, len, bytes) = match *left {
                        Left::Pooled(at, len) => (at, len, &[][..]),
                        Left::Inline(bytes) => (NONE, bytes.len() as u32, bytes),
                    };
                    out.extend_from_slice(&at.to_le_bytes());
                    out.extend_from_slice(&len.to_le_bytes());
                    out.extend_from_slice(bytes);
                }
            }
            Message::Receiver(r) => words(6, &[r.grant, r.claim, r.shut, r.ended, r.returned]),
            Message::Answer(bits) => words(7, &[*bits]),
            Message::Gone(how) => words(8, &[*how]),
        }
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// [`Malformed`] if `bytes` is not a valid message.
    pub fn decode(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let mut rest = Rest(bytes);
        let message = match rest.take::<1>()?[0] {
            0 => Message::Path(Path {
                window: rest.word()?,
                from: rest.word()?,
                switch: rest.word()?,
            }),
            1 => {
                let (n, immediate, at) = (rest.half()?, rest.half()?, rest.half()?);
                let pool_offset = Some(at).filter(|&at| at != NONE);
                let bytes = rest.all();
                let most = if pool_offset.is_some() { MESSAGE_MAX } else { INLINE };
                if bytes.len() > most {
                    return Err(Malformed("an entry with too many bytes"));
                }
                let entry = Entry { immediate, len: bytes.len() as u32, pool_offset };
                Message::Entry(n, entry, bytes)
            }
            2 => Message::Coalesced {
                after: rest.word()?,
                start: rest.word()?,
                position: rest.word()?,
                bytes: rest.all(),
            },
            3 => Message::State(State {
                fin: rest.word()?,
                ledger: rest.word()?,
                drained: rest.word()?,
                taken: rest.word()?,
                asked: rest.word()?,
            }),
            4 => Message::Consumed(Consumed {
                released: rest.word()?,
                head: rest.word()?,
                taken_bytes: rest.word()?,
                posted: rest.half()?,
            }),
            5 => {
                let (undelivered, front, mut left) = (rest.word()?, rest.word()?, Vec::new());
                while !rest.0.is_empty() {
                    left.push(rest.left()?);
                }
                Message::Undelivered(undelivered, front, left)
            }
            6 => Message::Receiver(Receiver {
                grant: rest.word()?,
                claim: rest.word()?,
                shut: rest.word()?,
                ended: rest.word()?,
                returned: rest.word()?,
            }),
            7 => Message::Answer(rest.word()?),
            8 => Message::Gone(rest.word()?),
            _ => return Err(Malformed("a message of an unknown kind")),
        };
        if rest.0.is_empty() { Ok(message) } else { Err(Malformed("a message that is too long")) }
    }
}

/// The unread rest of a message.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk().ok_or(Malformed("a truncated message"))?;
        self.0 = tail;
        Ok(*head)
    }

    fn word(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    fn half(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_le_bytes)
    }

    fn all(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    fn left(&mut self) -> Result<Left<'a>, Malformed> {
        let (at, len) = (self.half()?, self.half()?);
        if at != NONE {
            return Ok(Left::Pooled(at, len));
        }
        let inline = self.0.split_at_checked(len as usize).filter(|_| len as usize <= INLINE);
        let (bytes, rest) = inline.ok_or(Malformed("an undelivered message that is too long"))?;
        self.0 = rest;
        Ok(Left::Inline(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(bytes: &[u8]) -> impl Strategy<Value = Message<'_>> {
        let word = any::<u64>;
        prop_oneof![
            (word(), word(), word()).prop_map(|(window, from, switch)| Message::Path(Path {
                window,
                from,
                switch
            })),
            (any::<u32>(), any::<u32>(), proptest::option::of(0..NONE), 0..=INLINE).prop_map(
                move |(n, immediate, pool_offset, len)| {
                    let entry = Entry { immediate, len: len as u32, pool_offset };
                    Message::Entry(n, entry, &bytes[..len])
                }
            ),
            (word(), word(), word(), 0..bytes.len()).prop_map(
                move |(after, start, position, len)| Message::Coalesced {
                    after,
                    start,
                    position,
                    bytes: &bytes[..len]
                }
            ),
            (word(), word(), word(), word(), word()).prop_map(
                |(fin, ledger, drained, taken, asked)| Message::State(State {
                    fin,
                    ledger,
                    drained,
                    taken,
                    asked
                })
            ),
            (any::<u32>(), word(), word(), word()).prop_map(
                |(posted, released, head, taken_bytes)| Message::Consumed(Consumed {
                    posted,
                    released,
                    head,
                    taken_bytes
                })
            ),
            (word(), word(), proptest::collection::vec(left(bytes), 0..5)).prop_map(
                |(undelivered, front, left)| Message::Undelivered(undelivered, front, left)
            ),
            (word(), word(), word(), word(), word()).prop_map(
                |(grant, claim, shut, ended, returned)| {
                    Message::Receiver(Receiver { grant, claim, shut, ended, returned })
                }
            ),
            word().prop_map(Message::Answer),
            word().prop_map(Message::Gone),
        ]
    }

    fn left(bytes: &[u8]) -> impl Strategy<Value = Left<'_>> {
        prop_oneof![
            (0..NONE, any::<u32>()).prop_map(|(at, len)| Left::Pooled(at, len)),
            (0..=INLINE).prop_map(move |len| Left::Inline(&bytes[..len])),
        ]
    }

    const BYTES: &[u8] = &[7; 200];

    proptest! {
        #[test]
        fn a_message_survives_its_encoding(message in message(BYTES)) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
        }

        #[test]
        fn arbitrary_bytes_are_a_message_or_malformed(
            bytes in proptest::collection::vec(any::<u8>(), 0..300)
        ) {
            if let Ok(message) = Message::decode(&bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn a_message_cut_short_is_malformed() {
        let mut bytes = Vec::new();
        Message::State(State::default()).encode(&mut bytes);
        for len in 0..bytes.len() {
            assert!(Message::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        bytes.push(0);
        assert!(Message::decode(&bytes).is_err());
    }
}
