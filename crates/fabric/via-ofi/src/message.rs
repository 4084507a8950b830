//! What NICs say to each other: frames, and words about messages that libfabric moves.
//!
//! The kind of each and the number of its sender's are in its tag, so that a frame with a few bytes of a message is injected. Numbers
//! are little-endian.

use sovia_link::wire::EndId;

/// A frame of the engine's.
pub(crate) const FRAME: u8 = 1;
/// The sender's address, with its length before it, and then a frame of the engine's, or nothing.
pub(crate) const FRAME_FROM: u8 = 2;
/// Memory is ready for an announced message.
pub(crate) const READY: u8 = 3;
/// What is expected under a ticket is not coming.
pub(crate) const WITHDRAWN: u8 = 4;

/// Bits of a tag that the kind has; the others are the sender's number.
const KIND_BITS: u32 = 3;
/// Bits that a sender's number has at least: it is drawn, and must not be guessed.
pub(crate) const NUMBER_BITS_MIN: u32 = 48;
/// Bytes of the longest address.
pub(crate) const ADDRESS_MAX: usize = 64;
/// Bytes before a frame at most.
pub(crate) const HEADER_MAX: usize = 1 + ADDRESS_MAX;

/// A message without its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A frame; with the sender's address, if it says that. An empty one says nothing but this.
    Frame { address: Option<&'a [u8]>, bytes: &'a [u8] },
    /// [`sovia_softnic::World::ready`].
    Ready { to: EndId, from: EndId, number: u64, ticket: u64 },
    /// [`sovia_softnic::Medium::withdraw`].
    Withdrawn { ticket: u64 },
}

/// The bits of a number that fit in a tag with such bits.
pub(crate) fn numbers(tags: u64) -> u64 {
    tags >> KIND_BITS
}

/// The tag of a message of that kind.
pub(crate) fn tag(kind: u8, sender: u64) -> u64 {
    sender << KIND_BITS | u64::from(kind)
}

/// Writes the address that comes before a frame; its length. `None` if there is no room.
pub(crate) fn begin(room: &mut [u8], address: Option<&[u8]>) -> Option<usize> {
    let Some(address) = address else { return Some(0) };
    *room.first_mut()? = u8::try_from(address.len()).ok()?;
    let end = 1 + address.len();
    room.get_mut(1..end)?.copy_from_slice(address);
    Some(end)
}

/// Writes a word; its length.
fn words(room: &mut [u8], words: &[u64]) -> Option<usize> {
    for (at, word) in words.iter().enumerate() {
        room.get_mut(at * 8..8 + at * 8)?.copy_from_slice(&word.to_le_bytes());
    }
    Some(words.len() * 8)
}

/// Writes [`Message::Ready`]; its length.
pub(crate) fn ready(
    room: &mut [u8],
    (to, from): (EndId, EndId),
    number: u64,
    ticket: u64,
) -> Option<usize> {
    words(room, &[to.0, from.0, number, ticket])
}

/// Writes [`Message::Withdrawn`]; its length.
pub(crate) fn withdrawn(room: &mut [u8], ticket: u64) -> Option<usize> {
    words(room, &[ticket])
}

/// The sender's number, and the message; `None` of what is none.
pub(crate) fn parse(tag: u64, bytes: &[u8]) -> Option<(u64, Message<'_>)> {
    let word = |n: usize| Some(u64::from_le_bytes(*bytes.get(n * 8..)?.first_chunk()?));
    let message = match (tag & ((1 << KIND_BITS) - 1)) as u8 {
        FRAME => Message::Frame { address: None, bytes },
        FRAME_FROM => {
            let (len, rest) = bytes.split_first()?;
            let (address, bytes) = rest.split_at_checked(usize::from(*len))?;
            let is_one = (1..=ADDRESS_MAX).contains(&address.len());
            Message::Frame { address: Some(is_one.then_some(address)?), bytes }
        }
        READY if bytes.len() == 32 => Message::Ready {
            to: EndId(word(0)?),
            from: EndId(word(1)?),
            number: word(2)?,
            ticket: word(3)?,
        },
        WITHDRAWN if bytes.len() == 8 => Message::Withdrawn { ticket: word(0)? },
        _ => return None,
    };
    Some((tag >> KIND_BITS, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let mut room = [0; 200];
        let len = begin(&mut room, Some(b"address")).unwrap();
        room[len..len + 5].copy_from_slice(b"frame");
        let frame = Message::Frame { address: Some(b"address"), bytes: b"frame" };
        assert_eq!(parse(tag(FRAME_FROM, 7), &room[..len + 5]), Some((7, frame)));
        assert_eq!(begin(&mut room, None), Some(0));
        let frame = Message::Frame { address: None, bytes: &[9] };
        assert_eq!(parse(tag(FRAME, 8), &[9]), Some((8, frame)));
        let (to, from) = (EndId(1), EndId(u64::MAX));
        let len = ready(&mut room, (to, from), 3, 4).unwrap();
        let message = Message::Ready { to, from, number: 3, ticket: 4 };
        let number = numbers(u64::MAX >> 1);
        assert_eq!(parse(tag(READY, number), &room[..len]), Some((number, message)));
        let len = withdrawn(&mut room, 4).unwrap();
        let message = Message::Withdrawn { ticket: 4 };
        assert_eq!(parse(tag(WITHDRAWN, 9), &room[..len]), Some((9, message)));
        assert_eq!(parse(tag(WITHDRAWN, 9), &room[..len - 1]), None);
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_read_beyond_its_end(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            kind in 0u8..6,
        ) {
            if let Some((_, Message::Frame { address: Some(address), bytes: frame })) =
                parse(tag(kind, 1), &bytes)
            {
                prop_assert!((1..=ADDRESS_MAX).contains(&address.len()));
                prop_assert!(bytes.len() == 1 + address.len() + frame.len());
            }
        }
    }
}
