//! Tests with corrupt frames: the dissector and the parser must give the same reason.

use crate::dissector::capture::{Medium, capture};
use crate::dissector::meanings::vectors;
use crate::dissector::tshark::{self, is_there};
use sovia_link::wire::{Checksum, Packet, seal};
use std::collections::BTreeSet;

/// Pseudo-random numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// Changes some bytes of a frame, or its length. Most results have the right length field and checksum.
fn damage(frame: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..numbers.below(3) {
        let place = numbers.below(frame.len());
        // Small numbers and high bits are legal or nearly legal values of many fields.
        frame[place] = [0, 1, 2, 4, 5, 8, 17, 65, 0x80, 0xff][numbers.below(10)];
    }
    match numbers.below(6) {
        0 => frame.truncate(1 + numbers.below(frame.len())),
        1 => frame.push(numbers.below(2) as u8),
        _ => {}
    }
    if numbers.below(8) > 0 {
        let flags = frame.get(2).copied();
        seal(frame);
        if flags == Some(1) && frame.len() >= 28 && numbers.below(4) > 0 {
            frame[24..28].fill(0);
        }
    }
}

#[test]
fn dissector_refuses_what_the_parser_refuses_for_the_same_reason() {
    if !is_there("dissector_refuses_what_the_parser_refuses_for_the_same_reason") {
        return;
    }
    let mut numbers = Numbers(0x5071_a5ee_d000_0001);
    let vectors = vectors();
    let mut frames = Vec::new();
    for _ in 0..6000 {
        let mut frame = vectors[numbers.below(vectors.len())].frame.clone();
        damage(&mut frame, &mut numbers);
        frames.push(frame);
    }
    let medium = Medium::Ethernet { is_padded: false };
    let packets: Vec<_> = frames.iter().map(|frame| (medium, frame.clone())).collect();
    let printed = tshark::fields("damaged", &capture(&packets), &[]);
    assert_eq!(printed.len(), frames.len());
    let mut reasons = BTreeSet::new();
    for (frame, printed) in frames.iter().zip(&printed) {
        let reason = Packet::parse_for(frame, Checksum::Link).err().map(|error| error.to_string());
        let said = printed.get("sovia.malformed").map(|said| said.join(";"));
        assert_eq!(said, reason, "{frame:02x?}");
        let reason = reason.unwrap_or_else(|| "none: it is legal".to_owned());
        // All versions count as one reason, and so do all kinds.
        reasons.insert(reason.replace(|c: char| c.is_ascii_digit(), ""));
    }
    // Legal, cut short, too long, the version, the kind, the checksum, and sixteen fields.
    assert_eq!(reasons.len(), 22, "{reasons:#?}");
}
