//! Every packet and its bytes.

use crate::packets::{frame, owned, packet};
use proptest::prelude::*;
use sovia_link::wire::{EndId, Frame, HEADER, Item, Meeting, Operation, Packet, Part, Request};
use via::{NetAddress, Reliability, ViAttributes};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn every_packet_survives_its_frame(packet in packet()) {
        let frame = frame(&packet);
        let parsed = Packet::parse(&frame);
        prop_assert_eq!(parsed.map(owned), Ok(packet));
    }

    #[test]
    fn padding_behind_a_frame_is_ignored(packet in packet(), padding: Vec<u8>) {
        let mut frame = frame(&packet);
        frame.extend_from_slice(&padding);
        prop_assert_eq!(Packet::parse(&frame).map(owned), Ok(packet));
    }

    #[test]
    fn view_has_what_the_packet_has(packet in packet()) {
        let bytes = frame(&packet);
        let view = Frame::checked(&bytes).unwrap();
        prop_assert_eq!(view.body().len(), bytes.len() - HEADER);
        if let Packet::Ack { to, from, .. } | Packet::Stream { to, from, .. } = packet {
            prop_assert_eq!((view.to(), view.from()), (to, from));
        }
    }
}

/// The bytes of a frame, by the tables of the format.
#[track_caller]
fn assert_bytes<B: AsRef<[u8]>>(packet: &Packet<B>, header: [u8; 24], body: &[u8]) {
    let frame = frame(packet);
    assert_eq!(frame[..24], header);
    assert_eq!(&frame[28..], body);
}

#[test]
fn part_of_a_stream_has_the_bytes_of_the_table() {
    let operation = Operation::Write { address: 0x0102_0304_0506_0708, handle: 0x090A_0B0C };
    let part = Part { operation, immediate: Some(0xAABB_CCDD), total: 9, start: 6, bytes: *b"xyz" };
    let (to, from) = (EndId(0x11), EndId(0x22));
    let packet = Packet::Stream { to, from, number: 0x0300_0001, ack: 5, item: Item::Part(part) };
    #[rustfmt::skip]
    let header = [
        1, 1, 0, 0,  0, 0, 0, 67,
        0, 0, 0, 0, 0, 0, 0, 0x11,  0, 0, 0, 0, 0, 0, 0, 0x22,
    ];
    #[rustfmt::skip]
    let body = [
        3, 0, 0, 1,  0, 0, 0, 5,
        2, 1, 0, 0,  0xAA, 0xBB, 0xCC, 0xDD,  0, 0, 0, 9,  0, 0, 0, 6,
        1, 2, 3, 4, 5, 6, 7, 8,  9, 10, 11, 12,
        b'x', b'y', b'z',
    ];
    assert_bytes(&packet, header, &body);
}

#[test]
fn request_has_the_bytes_of_the_table() {
    let attributes = ViAttributes {
        reliability: Reliability::RELIABLE_RECEPTION,
        max_transfer_size: 0x1_0000,
        ptag: None,
        enable_rdma_write: false,
        enable_rdma_read: true,
    };
    let (local, remote) = (NetAddress::new(b"ab", b"c"), NetAddress::new(b"d", b""));
    let request = Request { id: EndId(7), local, remote, attributes, peer: true };
    let packet = Packet::<[u8; 0]>::Meeting(Meeting::Request(Box::new(request)));
    let header = [1, 16, 0, 0, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let body = [4, 6, 0, 0, 0, 1, 0, 0, 2, 1, b'a', b'b', b'c', 1, 0, b'd'];
    assert_bytes(&packet, header, &body);
}

/// Computed by hand from the tables, with the checksum of another implementation.
#[test]
fn whole_frame_is_as_it_was() {
    let packet = Packet::<[u8; 0]>::Ack { to: EndId(1), from: EndId(2), ack: 3 };
    let frame = frame(&packet);
    assert_eq!(frame[24..28], CHECKSUM_OF_ACK);
    assert_eq!(frame.len(), 32);
}

const CHECKSUM_OF_ACK: [u8; 4] = [0x33, 0x98, 0x0C, 0x24];
