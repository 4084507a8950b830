//! Tests of both ends of a segment in one process, also with a corrupt peer.

use super::reader::Reader;
use super::segment::{IN_LINE, INLINE, POOL, SLOTS, SMALL, Segment, place};
use super::writer::Writer;
use super::{EAGER_MAX, Head, Load, MESSAGE_MAX};
use crate::memory::{Buffer, Piece};
use proptest::prelude::*;
use std::collections::VecDeque;

fn ends() -> (Writer, Reader, Segment) {
    let (segment, fd) = Segment::create().unwrap();
    let reader = Reader::new(Segment::attach(&fd).unwrap());
    (Writer::new(segment.clone()), reader, segment)
}

fn send(writer: &mut Writer, kind: u8, words: &[u64], bytes: &[u8]) -> bool {
    let piece = Piece { address: bytes.as_ptr().addr(), len: bytes.len() };
    // SAFETY: the bytes outlive the buffer.
    let buffer = unsafe { Buffer::new(&[piece]) }.unwrap();
    let head = Head { kind, len: 0, tag: 0, data: 0 };
    writer.send(head, Load { words, buffer: Some((&buffer, 0, bytes.len())) }).unwrap()
}

fn receive(reader: &mut Reader) -> Option<(u8, Vec<u8>)> {
    let (head, body) = reader.peek().unwrap()?;
    let mut bytes = Vec::new();
    body.append_to(0, &mut bytes);
    reader.release(head);
    Some((head.kind, bytes))
}

#[test]
fn places_in_the_pool_are_one_piece_each() {
    for from in (0..3 * POOL as u64).step_by(64 * 101) {
        for len in [INLINE + 1, 64, 65, 4000, MESSAGE_MAX] {
            let (start, end) = place(from, len);
            assert!(start >= from && end >= start + len as u64);
            assert_eq!(start / POOL as u64, (end - 1) / POOL as u64, "{from}, {len}");
        }
    }
}

#[test]
fn full_ring_refuses_messages_until_read() {
    let (mut writer, mut reader, _) = ends();
    for i in 0..SLOTS {
        assert!(send(&mut writer, 1, &[u64::from(i)], &[]));
    }
    assert!(!send(&mut writer, 1, &[0], &[]));
    for i in 0..SLOTS {
        assert_eq!(receive(&mut reader), Some((1, u64::from(i).to_le_bytes().to_vec())));
    }
    assert!(send(&mut writer, 1, &[0], &[]));
}

#[test]
fn numbers_that_were_not_given_out_are_damage() {
    let (mut writer, mut reader, segment) = ends();
    assert!(send(&mut writer, 1, &[1], &[]));
    // The reader returns messages that it never received.
    segment.credit().store(2, 0);
    assert!(writer.has_room(MESSAGE_MAX * 100).is_err());
    segment.credit().store(0, 1 << 40);
    assert!(writer.has_room(MESSAGE_MAX * 100).is_err());
    // The writer skips a number, or sends more than the maximum.
    assert!(receive(&mut reader).is_some());
    segment.slot(1).publish(7, Head { kind: 1, ..Head::default() });
    assert!(reader.peek().is_err());
    let long = Head { kind: 1, len: MESSAGE_MAX as u32 + 1, tag: 0, data: 0 };
    segment.slot(1).publish(1, long);
    assert!(reader.peek().is_err());
}

#[test]
fn slots_that_no_honest_writer_leaves_so_are_damage() {
    // A line without a message.
    let (_, mut reader, segment) = ends();
    segment.slot(0).leave_empty(0);
    assert!(reader.peek().is_err());
    // A message that needs a whole line, but begins in its second slot.
    let (mut writer, mut reader, segment) = ends();
    assert!(send(&mut writer, 1, &[1], &[]));
    assert!(receive(&mut reader).is_some());
    let len = SMALL as u32 + 1;
    segment.slot(1).publish(1, Head { kind: 1, len, tag: 0, data: 0 });
    assert!(reader.peek().is_err());
}

/// Message bytes never lie where the reader expects a head word.
#[test]
fn bytes_of_a_message_are_never_taken_for_a_head() {
    let (mut writer, mut reader, _) = ends();
    for lap in 0..3 {
        for line in 0..SLOTS / IN_LINE {
            // The forged bytes equal the head of the second slot one lap later.
            let number = (lap + 1) * SLOTS + line * IN_LINE + 2;
            let forged = u64::from(number) | 1 << 56;
            assert!(send(&mut writer, 1, &[forged; INLINE / 8], &[]));
            assert!(receive(&mut reader).is_some());
            assert_eq!(receive(&mut reader), None);
        }
    }
    // A message in a second slot, where earlier laps left bytes.
    assert!(send(&mut writer, 1, &[1], &[]));
    assert!(receive(&mut reader).is_some());
    assert_eq!(receive(&mut reader), None);
    assert!(send(&mut writer, 2, &[2], &[]));
    assert_eq!(receive(&mut reader), Some((2, 2u64.to_le_bytes().to_vec())));
}

#[test]
fn a_message_that_needs_a_line_waits_for_both_slots() {
    let (mut writer, mut reader, _) = ends();
    for i in 0..SLOTS - 1 {
        assert!(send(&mut writer, 1, &[u64::from(i)], &[]));
    }
    assert!(
        !send(&mut writer, 2, &[9; 2], &[]),
        "one slot is free, and it is the second of its line"
    );
    assert!(send(&mut writer, 1, &[9], &[]));
    while receive(&mut reader).is_some() {}
    assert!(send(&mut writer, 1, &[1], &[]));
    assert!(send(&mut writer, 2, &[2; 2], &[]));
    assert!(send(&mut writer, 3, &[3], &[]));
    let kinds = core::iter::from_fn(|| receive(&mut reader).map(|(kind, _)| kind));
    assert_eq!(kinds.collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn what_is_no_segment_is_not_mapped() {
    let other = sovia_sys::mapping::sealed_memory(c"other", 4096).unwrap();
    assert!(Segment::attach(&other).is_none());
}

proptest! {
    /// For any slots of a writer, the reader reads only within the segment, and continues or reports corruption.
    #[test]
    fn hostile_slots_are_read_or_damage(
        stores in proptest::collection::vec(
            (0u32..8, 0u32..4, 0u8..3, prop_oneof![0u32..48, 0u32..1 << 24]),
            1..200,
        ),
    ) {
        let (_, mut reader, segment) = ends();
        let mut next = 0u32;
        'stores: for (ahead, off, kind, len) in stores {
            let (slot, number) = (next.wrapping_add(ahead), next.wrapping_add(ahead + off / 3));
            segment.slot(slot).publish(number, Head { kind, len, tag: 0, data: 0 });
            // A ring never holds more messages than slots.
            for _ in 0..SLOTS {
                let Ok(found) = reader.peek() else { break 'stores };
                let Some((head, body)) = found else { break };
                let mut bytes = Vec::new();
                body.append_to(0, &mut bytes);
                prop_assert!(bytes.len() == head.len as usize && bytes.len() <= MESSAGE_MAX);
                let words: [u64; 2] = body.words();
                let mut first = [0; 16];
                let known = bytes.len().min(16);
                first[..known].copy_from_slice(&bytes[..known]);
                prop_assert_eq!(words.map(u64::to_le_bytes).concat(), first);
                reader.release(head);
                next = next.wrapping_add(if head.len as usize > SMALL { IN_LINE } else { 1 });
            }
        }
    }

    /// Messages of any length arrive in order, at any pace of reading, over several laps of ring and pool.
    #[test]
    fn every_message_arrives_in_its_order(
        steps in proptest::collection::vec((0usize..4, 0..EAGER_MAX, 0usize..8, 0usize..3), 1..400),
    ) {
        let (mut writer, mut reader, _) = ends();
        let mut sent = VecDeque::new();
        for (number, (kind, len, words, reads)) in steps.into_iter().enumerate() {
            let len = [len % 8, len % INLINE, len % 300, len][kind];
            let words = vec![number as u64 | 1 << 63; words];
            let bytes: Vec<u8> = (0..len).map(|i| (number + i) as u8).collect();
            let kind = kind as u8 + 1;
            if send(&mut writer, kind, &words, &bytes) {
                let mut all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                all.extend(bytes);
                sent.push_back((kind, all));
            } else {
                prop_assert!(!sent.is_empty(), "no room in what is empty");
            }
            for _ in 0..reads {
                prop_assert_eq!(receive(&mut reader), sent.pop_front());
            }
        }
        while let Some(expected) = sent.pop_front() {
            prop_assert_eq!(receive(&mut reader), Some(expected));
        }
        prop_assert_eq!(receive(&mut reader), None);
    }
}
