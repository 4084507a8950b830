//! Messages between NICs: frames, and messages about moves by libfabric.
//!
//! Each message begins with its kind and its sender's number. Numbers are little-endian.

use sovia_link::wire::bytes::{Out, Room};
use sovia_link::wire::{EndId, Item, Operation, Packet, Readable, Sending};
use sovia_ofi::{PARTS_MAX, Part};

/// Followed by a frame of the engine.
const FRAME: u8 = 1;
/// Followed by the sender's address after a length byte, and then a frame of the engine or nothing.
const FRAME_FROM: u8 = 2;
/// Memory is ready for an announced message.
const READY: u8 = 3;
/// The sender will not send the message that is expected under a ticket.
const WITHDRAWN: u8 = 4;
/// The receiver can fetch the bytes that it expects under a ticket. Followed by parts of memory.
const LENT: u8 = 5;
/// The receiver fetches nothing more of the memory lent for a ticket.
const RETURNED: u8 = 6;
/// Followed by a whole message of a send, as an item of a connection's stream ([`Whole`]): without immediate data, and
/// with it.
const WHOLE: u8 = 7;
const WHOLE_WITH: u8 = 8;

/// Number of bytes before a frame.
pub(crate) const HEADER: usize = 9;
/// Largest length of an address in bytes.
pub(crate) const ADDRESS_MAX: usize = 64;
/// Largest number of bytes before a frame.
pub(crate) const HEADER_MAX: usize = HEADER + 1 + ADDRESS_MAX;

/// A message, without its sender's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A frame, with the sender's address if given. An empty frame only carries the address.
    Frame { address: Option<&'a [u8]>, bytes: &'a [u8] },
    /// A whole message of a send in one frame.
    Whole(Whole<'a>),
    /// [`sovia_softnic::World::ready`].
    Ready { to: EndId, from: EndId, number: u64, ticket: u64 },
    /// [`sovia_softnic::Medium::withdraw`].
    Withdrawn { ticket: u64 },
    /// [`sovia_ofi::Endpoint::lend`].
    Lent { ticket: u64, parts: Parts<'a> },
    /// The receiver of the bytes fetches nothing more for this ticket.
    Returned { ticket: u64 },
}

/// A whole message of a send, in its order in a connection's stream. A frame of the engine would be at least 24 bytes
/// longer, and some providers cannot send that many bytes inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole<'a> {
    to: EndId,
    from: EndId,
    sending: Sending,
    ack: u32,
    immediate: Option<u32>,
    bytes: &'a [u8],
}

/// Length of the numbers in a whole message after its sender's number: two ends, the numbers of item and sending, an
/// acknowledgement.
const WHOLE_NUMBERS: usize = 28;

impl<'a> Whole<'a> {
    /// Converts the message to the engine's packet.
    pub(crate) fn packet(self) -> Packet<&'a [u8]> {
        let Whole { to, from, sending, ack, immediate, bytes } = self;
        // The length of a frame fits into 32 bits.
        let total = bytes.len() as u32;
        let operation = Operation::Send;
        let part = sovia_link::wire::Part { operation, immediate, total, start: 0, bytes };
        Packet::Stream { to, from, sending, ack, item: Item::Part(part) }
    }

    fn parse(rest: &'a [u8], has_immediate: bool) -> Option<Whole<'a>> {
        let (numbers, rest) = rest.split_first_chunk::<WHOLE_NUMBERS>()?;
        let word = |at: usize| Some(u64::from_le_bytes(*numbers.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u32::from_le_bytes(*numbers.get(at..)?.first_chunk()?));
        let (immediate, bytes) = if has_immediate {
            let (immediate, bytes) = rest.split_first_chunk()?;
            (Some(u32::from_le_bytes(*immediate)), bytes)
        } else {
            (None, rest)
        };
        let (to, from) = (EndId(word(0)?), EndId(word(8)?));
        let sending = Sending { number: half(16)?, transmission: half(20)? };
        Some(Whole { to, from, sending, ack: half(24)?, immediate, bytes })
    }
}

/// Writes a packet as a whole message, and returns its length. Returns `None` for any other packet, and if there is no
/// room.
pub(crate) fn whole<B: Readable>(
    room: &mut [u8],
    sender: u64,
    packet: &Packet<B>,
) -> Option<usize> {
    let Packet::Stream { to, from, sending, ack, item: Item::Part(part) } = packet else {
        return None;
    };
    let is_one = part.operation == Operation::Send && part.start == 0 && part.is_last();
    if !is_one || part.is_announcement() {
        return None;
    }
    let len = room.len();
    let mut out = Room::new(room);
    out.put(&[if part.immediate.is_some() { WHOLE_WITH } else { WHOLE }]);
    [sender, to.0, from.0].iter().for_each(|word| out.put(&word.to_le_bytes()));
    let halves = [sending.number, sending.transmission, *ack];
    halves.iter().chain(&part.immediate).for_each(|half| out.put(&half.to_le_bytes()));
    out.put_payload(&part.bytes);
    (out.len <= len).then_some(out.len)
}

/// Encoded length of a part of memory.
const PART: usize = 24;

/// Received parts of memory, decoded on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts<'a>(&'a [u8]);

impl Parts<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Part> {
        self.0.chunks_exact(PART).map(|part| {
            let word = |n: usize| {
                part[n * 8..]
                    .iter()
                    .take(8)
                    .rev()
                    .fold(0, |word, &byte| word << 8 | u64::from(byte))
            };
            Part { address: word(0), len: word(1), key: word(2) }
        })
    }
}

/// Writes the bytes before a frame, and returns their length. Returns `None` if there is no room.
pub(crate) fn begin(room: &mut [u8], sender: u64, address: Option<&[u8]>) -> Option<usize> {
    let kind = if address.is_some() { FRAME_FROM } else { FRAME };
    *room.first_mut()? = kind;
    room.get_mut(1..HEADER)?.copy_from_slice(&sender.to_le_bytes());
    let Some(address) = address else { return Some(HEADER) };
    *room.get_mut(HEADER)? = u8::try_from(address.len()).ok()?;
    let end = HEADER + 1 + address.len();
    room.get_mut(HEADER + 1..end)?.copy_from_slice(address);
    Some(end)
}

/// Writes a message of 64-bit words, and returns its length.
fn words(room: &mut [u8], kind: u8, words: impl IntoIterator<Item = u64>) -> Option<usize> {
    *room.first_mut()? = kind;
    let mut end = 1;
    for word in words {
        room.get_mut(end..end + 8)?.copy_from_slice(&word.to_le_bytes());
        end += 8;
    }
    Some(end)
}

/// Writes [`Message::Ready`], and returns its length.
pub(crate) fn ready(
    room: &mut [u8],
    sender: u64,
    (to, from): (EndId, EndId),
    number: u64,
    ticket: u64,
) -> Option<usize> {
    words(room, READY, [sender, to.0, from.0, number, ticket])
}

/// Writes [`Message::Withdrawn`], and returns its length.
pub(crate) fn withdrawn(room: &mut [u8], sender: u64, ticket: u64) -> Option<usize> {
    words(room, WITHDRAWN, [sender, ticket])
}

/// Writes [`Message::Lent`], and returns its length.
pub(crate) fn lent(room: &mut [u8], sender: u64, ticket: u64, parts: &[Part]) -> Option<usize> {
    let parts = parts.iter().flat_map(|it| [it.address, it.len, it.key]);
    words(room, LENT, [sender, ticket].into_iter().chain(parts))
}

/// Writes [`Message::Returned`], and returns its length.
pub(crate) fn returned(room: &mut [u8], sender: u64, ticket: u64) -> Option<usize> {
    words(room, RETURNED, [sender, ticket])
}

/// Decodes a message. Returns the sender's number and the message, or `None` if it is invalid.
pub(crate) fn parse(bytes: &[u8]) -> Option<(u64, Message<'_>)> {
    let (kind, rest) = bytes.split_first()?;
    let (sender, rest) = rest.split_first_chunk()?;
    let word = |n: usize| Some(u64::from_le_bytes(*rest.get(n * 8..)?.first_chunk()?));
    let message = match *kind {
        FRAME => Message::Frame { address: None, bytes: rest },
        FRAME_FROM => {
            let (len, rest) = rest.split_first()?;
            let (address, bytes) = rest.split_at_checked(usize::from(*len))?;
            let is_one = (1..=ADDRESS_MAX).contains(&address.len());
            Message::Frame { address: Some(is_one.then_some(address)?), bytes }
        }
        WHOLE | WHOLE_WITH => Message::Whole(Whole::parse(rest, *kind == WHOLE_WITH)?),
        READY if rest.len() == 32 => Message::Ready {
            to: EndId(word(0)?),
            from: EndId(word(1)?),
            number: word(2)?,
            ticket: word(3)?,
        },
        WITHDRAWN if rest.len() == 8 => Message::Withdrawn { ticket: word(0)? },
        RETURNED if rest.len() == 8 => Message::Returned { ticket: word(0)? },
        LENT => {
            let parts = rest.get(8..)?;
            let count = parts.len() / PART;
            let is_whole = parts.len() % PART == 0 && (1..=PARTS_MAX).contains(&count);
            Message::Lent { ticket: word(0)?, parts: Parts(is_whole.then_some(parts)?) }
        }
        _ => return None,
    };
    Some((u64::from_le_bytes(*sender), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let mut room = [0; 200];
        let len = begin(&mut room, 7, Some(b"address")).unwrap();
        room[len..len + 5].copy_from_slice(b"frame");
        let frame = Message::Frame { address: Some(b"address"), bytes: b"frame" };
        assert_eq!(parse(&room[..len + 5]), Some((7, frame)));
        let len = begin(&mut room, 8, None).unwrap();
        assert_eq!(len, HEADER);
        room[len] = 9;
        let frame = Message::Frame { address: None, bytes: &[9] };
        assert_eq!(parse(&room[..len + 1]), Some((8, frame)));
        let (to, from) = (EndId(1), EndId(u64::MAX));
        let len = ready(&mut room, 9, (to, from), 3, 4).unwrap();
        let message = Message::Ready { to, from, number: 3, ticket: 4 };
        assert_eq!(parse(&room[..len]), Some((9, message)));
        let len = withdrawn(&mut room, 9, 4).unwrap();
        assert_eq!(parse(&room[..len]), Some((9, Message::Withdrawn { ticket: 4 })));
        assert_eq!(parse(&room[..len - 1]), None);
        let len = returned(&mut room, 9, 4).unwrap();
        assert_eq!(parse(&room[..len]), Some((9, Message::Returned { ticket: 4 })));
        let parts = [1, u64::MAX].map(|it| Part { address: it, len: it - 1, key: it / 3 });
        let len = lent(&mut room, 9, 4, &parts).unwrap();
        let Some((9, Message::Lent { ticket: 4, parts: came })) = parse(&room[..len]) else {
            panic!("it is one");
        };
        assert!(came.iter().eq(parts));
        assert_eq!((parse(&room[..len - 1]), parse(&room[..17])), (None, None));
    }

    fn stream(part: sovia_link::wire::Part<&[u8]>) -> Packet<&[u8]> {
        let sending = Sending { number: 7, transmission: u32::MAX };
        let (to, from) = (EndId(u64::MAX - 1), EndId(3));
        Packet::Stream { to, from, sending, ack: 9, item: Item::Part(part) }
    }

    #[test]
    fn short_message_has_less_than_64_bytes_of_header() {
        let mut room = [0; 200];
        for (immediate, len, expected) in [(None, 27, 64), (Some(5), 23, 64), (None, 0, 37)] {
            let bytes = &[8; 200][..len];
            let total = len as u32;
            let part = sovia_link::wire::Part {
                operation: Operation::Send,
                immediate,
                total,
                start: 0,
                bytes,
            };
            let packet = stream(part);
            assert_eq!(whole(&mut room, 6, &packet), Some(expected));
            let Some((6, Message::Whole(read))) = parse(&room[..expected]) else {
                panic!("it is one");
            };
            assert_eq!(read.packet(), packet);
            assert_eq!(whole(&mut room[..expected - 1], 6, &packet), None, "there is no room");
            let short = parse(&room[..expected - len - 1]);
            assert_eq!(short, None, "it is cut short");
        }
    }

    #[test]
    fn what_is_no_whole_message_of_a_send_goes_as_a_frame() {
        let send = sovia_link::wire::Part {
            operation: Operation::Send,
            immediate: None,
            total: 4,
            start: 0,
            bytes: &b"four"[..],
        };
        let write = Operation::Write { address: 1, handle: 2 };
        let others = [
            sovia_link::wire::Part { operation: write, ..send },
            sovia_link::wire::Part { total: 5, ..send },
            sovia_link::wire::Part { total: 5, start: 1, ..send },
            sovia_link::wire::Part { bytes: &[][..], ..send },
        ];
        for part in others {
            assert_eq!(whole(&mut [0; 200], 6, &stream(part)), None, "{part:?}");
        }
        let gone: Packet<&[u8]> = Packet::Gone { to: EndId(1) };
        assert_eq!(whole(&mut [0; 200], 6, &gone), None);
    }

    proptest! {
        #[test]
        fn parsed_whole_message_is_emitted_unchanged(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            kind in WHOLE..=WHOLE_WITH,
        ) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Some((sender, Message::Whole(read))) = parse(&bytes) {
                let mut room = [0; 120];
                let len = whole(&mut room, sender, &read.packet());
                prop_assert_eq!(len.map(|len| &room[..len]), Some(&bytes[..]));
            }
        }

        #[test]
        fn nothing_that_comes_is_read_beyond_its_end(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            kind in 0u8..10,
        ) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Some((_, Message::Frame { address: Some(address), bytes: frame })) = parse(&bytes) {
                prop_assert!((1..=ADDRESS_MAX).contains(&address.len()));
                prop_assert!(bytes.len() == HEADER + 1 + address.len() + frame.len());
            }
        }
    }
}
