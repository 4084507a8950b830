//! Tests of refused frames.

use crate::wire::packets::{Owned, frame, packet};
use proptest::prelude::*;
use sovia_link::Malformed;
use sovia_link::wire::{
    Checksum, Closing, EndId, HEADER, Held, Item, Meeting, Operation, Packet, Part, Report, Seen,
    Sending, seal,
};
use via::NetAddress;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes: Vec<u8>) {
        prop_assert!(Packet::parse(&bytes).is_err());
    }

    /// Bytes with a correct header are refused, or parse to exactly one packet.
    #[test]
    fn arbitrary_bodies_are_refused_or_emitted_as_they_were(
        kind in prop_oneof![1u8..8, 16u8..23, any::<u8>()],
        ends: [u8; 16],
        mut body in prop::collection::vec(prop_oneof![0u8..6, any::<u8>()], 0..60),
        zeros in 0usize..60,
    ) {
        // Many fields must be zero.
        body.iter_mut().skip(zeros).step_by(2).for_each(|byte| *byte = 0);
        let mut bytes = vec![2, kind, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&ends);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&body);
        seal(&mut bytes);
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert_eq!(frame(&packet), bytes);
        }
    }

    #[test]
    fn every_truncation_is_refused(packet in packet()) {
        let frame = frame(&packet);
        for length in 0..frame.len() {
            prop_assert_eq!(Packet::parse(&frame[..length]), Err(Malformed::Short));
        }
    }

    /// The truncated frames have matching lengths and checksums.
    #[test]
    fn every_sealed_truncation_is_refused_or_another_packet(packet in packet()) {
        let whole = frame(&packet);
        for length in HEADER..whole.len() {
            let mut bytes = whole[..length].to_vec();
            seal(&mut bytes);
            if let Ok(packet) = Packet::parse(&bytes) {
                // The packet has a shorter part.
                prop_assert_eq!(frame(&packet), bytes);
            }
        }
    }

    #[test]
    fn every_changed_byte_is_noticed(packet in packet(), change in 1u8..) {
        let mut frame = frame(&packet);
        for place in 0..frame.len() {
            frame[place] ^= change;
            prop_assert!(Packet::parse(&frame).is_err(), "byte {}", place);
            frame[place] ^= change;
        }
    }
}

/// Returns the error for a frame whose byte at `place` has the value `value`.
#[track_caller]
fn with_byte(packet: &Owned, place: usize, value: u8) -> Malformed {
    let mut bytes = frame(packet);
    assert_ne!(bytes[place], value);
    bytes[place] = value;
    let length = bytes[4..8].to_vec();
    seal(&mut bytes);
    if (4..8).contains(&place) {
        bytes[4..8].copy_from_slice(&length);
    }
    Packet::parse(&bytes).unwrap_err()
}

fn stream(item: Item<Vec<u8>>) -> Owned {
    Packet::Stream {
        to: EndId(1),
        from: EndId(2),
        sending: Sending { number: 3, transmission: 9 },
        ack: 4,
        item,
    }
}

fn part() -> Part<Vec<u8>> {
    let (operation, bytes) = (Operation::Send, b"abcd".to_vec());
    Part { operation, immediate: None, total: 10, start: 6, bytes }
}

#[test]
fn fields_of_the_header_are_checked() {
    let hello = Packet::Hello { to: EndId(1), from: EndId(2) };
    assert_eq!(with_byte(&hello, 0, 1), Malformed::Version(1));
    assert_eq!(with_byte(&hello, 1, 99), Malformed::Kind(99));
    assert_eq!(with_byte(&hello, 1, 0), Malformed::Kind(0));
    assert_eq!(with_byte(&hello, 3, 1), Malformed::Value("reserved"));
    assert_eq!(with_byte(&hello, 2, 2), Malformed::Value("flags"));
    assert_eq!(with_byte(&hello, 2, 1), Malformed::Unchecked);
    assert_eq!(with_byte(&hello, 7, 27), Malformed::Short, "shorter than a header");
    assert_eq!(with_byte(&hello, 4, 1), Malformed::Short, "longer than what there is");
}

#[test]
fn fields_of_items_are_checked() {
    let part = stream(Item::Part(part()));
    assert_eq!(with_byte(&part, 40, 0), Malformed::Value("item"));
    assert_eq!(with_byte(&part, 40, 6), Malformed::Value("item"));
    assert_eq!(with_byte(&part, 41, 2), Malformed::Value("immediate data"));
    assert_eq!(with_byte(&part, 42, 1), Malformed::Value("reserved"));
    assert_eq!(with_byte(&part, 47, 1), Malformed::Value("immediate data"), "there is none");
    assert_eq!(with_byte(&part, 51, 9), Malformed::Value("offset in the message"));
    assert_eq!(with_byte(&part, 55, 7), Malformed::Value("offset in the message"));
    assert_eq!(with_byte(&part, 52, 255), Malformed::Value("offset in the message"));
    let close = stream(Item::Close(Closing::Disconnected));
    assert_eq!(with_byte(&close, 41, 5), Malformed::Value("reason of the end"));
    assert_eq!(with_byte(&close, 51, 1), Malformed::Value("reason of the end"));
    let read = stream(Item::Read { address: 1, handle: 2, length: 3 });
    assert_eq!(with_byte(&read, 41, 1), Malformed::Value("reserved"));
}

#[test]
fn empty_part_of_a_message_that_is_not_empty_is_refused() {
    let part = Part { bytes: Vec::new(), ..part() };
    let frame = frame(&stream(Item::Part(part)));
    assert_eq!(Packet::parse(&frame), Err(Malformed::Value("offset in the message")));
}

#[test]
fn fields_of_meetings_are_checked() {
    let (local, remote) = (NetAddress::new(b"host", b"1"), NetAddress::new(b"other", b"2"));
    let poke: Owned = Packet::Meeting(Meeting::Poke { local, remote });
    assert_eq!(with_byte(&poke, 28, 65), Malformed::Value("length of an address"));
    assert_eq!(with_byte(&poke, 28, 60), Malformed::Short);
    assert_eq!(with_byte(&poke, 15, 1), Malformed::Value("ends"), "a poke is for no end");
    let settled: Owned = Packet::Meeting(Meeting::Settled { request: EndId(3), connected: true });
    assert_eq!(with_byte(&settled, 28, 2), Malformed::Value("connected flag"));
    let mut longer = frame(&settled);
    longer.push(0);
    seal(&mut longer);
    assert_eq!(Packet::parse(&longer), Err(Malformed::Long));
}

fn ack(ranges: &[(u32, u32)]) -> Owned {
    let sending = Sending { number: 6, transmission: 7 };
    let mut report = Report::plain(5);
    report.room = 100;
    report.seen = Some(Seen { sending, delay: 8 });
    for &(skip, length) in ranges {
        assert!(report.push(Held { skip, length }));
    }
    Packet::Ack { to: EndId(1), from: EndId(2), report }
}

#[test]
fn fields_of_acks_are_checked() {
    let ack = ack(&[(1, 1), (2, 2)]);
    assert_eq!(with_byte(&ack, 32, 0x81), Malformed::Value("room"));
    assert_eq!(with_byte(&ack, 36, 4), Malformed::Value("flags of the acknowledgement"));
    assert_eq!(with_byte(&ack, 36, 0), Malformed::Long, "the sending is taken for ranges");
    assert_eq!(with_byte(&ack, 37, 3), Malformed::Short);
    assert_eq!(with_byte(&ack, 37, 1), Malformed::Long);
    assert_eq!(with_byte(&ack, 38, 1), Malformed::Value("reserved"));
    assert_eq!(with_byte(&ack, 59, 0), Malformed::Value("ranges"), "one without items");
    assert_eq!(with_byte(&ack, 63, 0), Malformed::Value("ranges"), "two that are one");
    assert_eq!(
        with_byte(&ack, 60, 0x80),
        Malformed::Value("ranges"),
        "more than numbers tell apart"
    );
}

#[test]
fn acks_have_so_many_ranges_and_no_more() {
    let all = [(1, 1); Report::RANGES];
    let Packet::Ack { mut report, .. } = ack(&all) else { panic!("it is an acknowledgement") };
    assert!(!report.push(Held { skip: 1, length: 1 }));
    let mut bytes = frame(&ack(&all));
    bytes[37] += 1;
    bytes.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    seal(&mut bytes);
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Value("ranges")));
}

#[test]
fn padding_of_a_probe_is_of_zeros() {
    let probe: Owned = Packet::Probe { to: EndId(1), from: EndId(2), nonce: 3, padding: 20 };
    assert_eq!(with_byte(&probe, 50, 1), Malformed::Value("padding"));
}

#[test]
fn frame_without_a_checksum_is_taken_where_the_link_has_one() {
    let hello: Owned = Packet::Hello { to: EndId(1), from: EndId(2) };
    let mut bytes = Vec::new();
    hello.emit_for(&mut bytes, Checksum::Link);
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Unchecked));
    assert!(Packet::parse_for(&bytes, Checksum::Link).is_ok());
    bytes[27] = 1;
    assert_eq!(Packet::parse_for(&bytes, Checksum::Link), Err(Malformed::Checksum));
    hello.emit(&mut bytes);
    assert!(Packet::parse_for(&bytes, Checksum::Link).is_ok(), "it has one all the same");
    bytes[20] ^= 1;
    assert_eq!(Packet::parse_for(&bytes, Checksum::Link), Err(Malformed::Checksum));
}
