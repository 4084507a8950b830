//! Trains: consecutive frames with parts of one message. Consecutive frames differ in few fields, so a receiver can
//! recognize a train without parsing.

use super::frame::{HEADER, UNCHECKED, field};
use super::packet::STREAM;
use super::{Item, Packet, Part, Sending};
use core::ops::Range;

/// Positions of the fields that differ between consecutive parts.
const NUMBER: Range<usize> = HEADER..HEADER + 4;
const TRANSMISSION: Range<usize> = HEADER + 4..HEADER + 8;
/// Position of fields that are the same: the acknowledgement, and the part's fields up to its start.
const SAME: Range<usize> = HEADER + 8..HEADER + 24;
const START: Range<usize> = HEADER + 24..HEADER + 28;

/// A frame with a part of a message, followed by frames with the next parts, each in the stream's next transmission.
/// Only frames without a checksum are recognized.
#[derive(Debug, Clone, Copy)]
pub struct Train<'a> {
    /// The most recent frame.
    frame: &'a [u8],
    /// The part and the transmission of the most recent frame.
    part: Part<&'a [u8]>,
    sending: Sending,
    /// Position of the part's bytes in the frame.
    begin: usize,
}

impl<'a> Train<'a> {
    /// Begins a train with a frame and its parsed contents. Returns `None` if no frame can follow in the train.
    pub fn begin(frame: &'a [u8], says: &Packet<&'a [u8]>) -> Option<Train<'a>> {
        let &Packet::Stream { sending, item: Item::Part(part), .. } = says else { return None };
        let begin = frame.len().checked_sub(part.bytes.len())?;
        // True if there is no padding, so that the part's bytes end with the frame.
        let is_whole = frame.get(begin..)?.as_ptr() == part.bytes.as_ptr();
        let is_plain = frame[field::KIND] == STREAM && frame[field::FLAGS] == UNCHECKED;
        (is_whole && is_plain && !part.is_last()).then_some(Train { frame, part, sending, begin })
    }

    /// Returns the transmission and the part of `frame`, if it continues the train and has the same length.
    pub fn next(&mut self, frame: &'a [u8]) -> Option<(Sending, Part<&'a [u8]>)> {
        let before = self.frame;
        let sending = Sending {
            number: self.sending.number.wrapping_add(1),
            transmission: self.sending.transmission.wrapping_add(1),
        };
        let start = self.part.end();
        let follows = frame.len() == before.len()
            && frame[..HEADER] == before[..HEADER]
            && frame[NUMBER] == sending.number.to_be_bytes()
            && frame[TRANSMISSION] == sending.transmission.to_be_bytes()
            && frame[SAME] == before[SAME]
            && frame[START] == start.to_be_bytes()
            && frame[START.end..self.begin] == before[START.end..self.begin];
        let part = Part { start, bytes: frame.get(self.begin..)?, ..self.part };
        let is_within = start.checked_add(part.bytes.len() as u32)? <= part.total;
        if !follows || !is_within {
            return None;
        }
        (self.frame, self.part, self.sending) = (frame, part, sending);
        Some((sending, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Whole;
    use crate::message::parts;
    use crate::wire::{Checksum, EndId, Operation};
    use proptest::prelude::*;

    fn frames(operation: Operation, message: &[u8], mtu: usize, link: Checksum) -> Vec<Vec<u8>> {
        let parts = parts(operation, Some(3), Whole::from(message.to_vec()), mtu);
        parts
            .zip(u32::MAX - 2..=u32::MAX)
            .map(|(part, number)| {
                let sending = Sending { number, transmission: number.wrapping_add(9) };
                let (to, from) = (EndId(1), EndId(2));
                let item = Item::Part(part);
                let mut frame = Vec::new();
                Packet::Stream { to, from, sending, ack: 7, item }.emit_for(&mut frame, link);
                frame
            })
            .collect()
    }

    fn begin(frame: &[u8]) -> Option<Train<'_>> {
        Train::begin(frame, &Packet::parse_for(frame, Checksum::Link).unwrap())
    }

    #[test]
    fn parts_of_one_message_follow_one_another_and_others_do_not() {
        let write = Operation::Write { address: 5, handle: 6 };
        for operation in [Operation::Send, write, Operation::ReadReply { read: 1 }] {
            let frames = frames(operation, &[8; 40], 10, Checksum::Link);
            let mut train = begin(&frames[0]).unwrap();
            assert!(train.next(&frames[0]).is_none() && train.next(&frames[2]).is_none());
            assert!(train.next(&frames[1]).is_some() && train.next(&frames[2]).is_some());
        }
        let checked = frames(Operation::Send, &[8; 40], 10, Checksum::Crc);
        assert!(begin(&checked[0]).is_none(), "its checksum is its own");
    }

    proptest! {
        /// A frame that the train accepts has the same contents as when it is parsed.
        #[test]
        fn next_one_says_what_its_bytes_say(
            message in prop::collection::vec(any::<u8>(), 1..60),
            mtu in 1usize..30,
            operation in prop_oneof![
                Just(Operation::Send),
                Just(Operation::Write { address: 5, handle: 6 }),
                Just(Operation::ReadReply { read: 1 }),
            ],
            at: prop::sample::Index,
            change: u8,
            padding in 0usize..3,
        ) {
            let mut frames = frames(operation, &message, mtu, Checksum::Link);
            prop_assume!(frames.len() > 1);
            let (first, second) = frames.split_at_mut(1);
            let frame = &mut second[0];
            frame.extend(vec![0; padding]);
            let at = at.index(frame.len());
            frame[at] ^= change;
            first[0].extend(vec![0; padding]);
            let Some(mut train) = begin(&first[0]) else { return Ok(()) };
            let Some((sending, part)) = train.next(frame) else { return Ok(()) };
            let (to, from, item) = (EndId(1), EndId(2), Item::Part(part));
            let said = Packet::Stream { to, from, sending, ack: 7, item };
            prop_assert_eq!(Packet::parse_for(frame, Checksum::Link), Ok(said));
        }
    }
}
