//! Tests that every packet survives emitting and parsing.

use crate::wire::packets::{frame, owned, packet};
use proptest::prelude::*;
use sovia_link::wire::{Frame, HEADER, Packet};

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
