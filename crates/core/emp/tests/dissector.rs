//! Compares Wireshark's dissector (tools/wireshark) with this crate's parser, on the frames of `vectors.txt`.

#[path = "../../link/tests/dissector/capture.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod capture;
#[path = "../../link/tests/dissector/tshark.rs"]
mod tshark;

use capture::{Medium, capture};
use sovia_emp::wire::{Ack, Body, Frame, Greeting, Head, WHOLE, Why};
use sovia_link::wire::Checksum;

fn frames() -> Vec<Vec<u8>> {
    let blocks = include_str!("vectors.txt").split("\n\n").skip(1);
    let bytes = |block: &str| {
        let lines = block.lines().filter(|line| line.starts_with(' '));
        let digits = lines.flat_map(str::split_whitespace);
        digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
    };
    blocks.map(bytes).filter(|bytes: &Vec<u8>| !bytes.is_empty()).collect()
}

fn of_ack(ack: &Ack) -> String {
    let Ack { id, number, below, done } = ack;
    let below = match *below {
        WHOLE => "whole".to_owned(),
        below => format!("collections before {below}"),
    };
    format!("ack #{id} frame {number} {below} messages before {done}")
}

fn of_greeting(greeting: &Greeting) -> String {
    let Greeting { nonce, you, first } = greeting;
    format!("you are {you}, from #{first} on, nonce {nonce:#x}")
}

/// Returns the expected text of the information column.
fn info(bytes: &[u8]) -> String {
    let frame = match Frame::parse(bytes, Checksum::Crc) {
        Ok(frame) => frame,
        Err(why) => return format!("REFUSED: {why}"),
    };
    let said = match frame.body {
        Body::Data { head: Head { id, number }, message, ack, .. } => {
            let message = message.map_or(String::new(), |message| {
                let after = if message.after > 0 {
                    format!(" after #-{}", message.after)
                } else {
                    String::new()
                };
                format!(
                    " tag {} {} bytes in {} frames{after}",
                    message.tag, message.total, message.frames
                )
            });
            let ack = ack.map_or(String::new(), |ack| format!(" {}", of_ack(&ack)));
            format!("message #{id} frame {number}{message}{ack}")
        }
        Body::Ack { ack, .. } => of_ack(&ack),
        Body::Refused { id, why: Why::TooLong, .. } => {
            format!("refused #{id}: longer than its receive")
        }
        Body::Refused { id, why: Why::GivenUp, .. } => {
            format!("refused #{id}: its sender had been given up")
        }
        Body::Noted { id, .. } => format!("noted #{id}"),
        Body::NotReady { id, is_early: false, .. } => format!("not ready for #{id}"),
        Body::NotReady { id, is_early: true, .. } => format!("not ready for #{id}, which is early"),
        Body::Go { tag, .. } => format!("go tag {tag}"),
        Body::Hello(hello) => format!("hello: {}", of_greeting(&hello.greeting)),
        Body::Welcome(greeting) => format!("welcome: {}", of_greeting(&greeting)),
        Body::Gone { name } => format!("gone: {:#x}", name.0),
    };
    format!("EMP {said}")
}

#[test]
fn every_vector_is_explained() {
    if !tshark::is_there("every_vector_is_explained") {
        return;
    }
    let medium = Medium::Ethernet { is_padded: false };
    let packets: Vec<_> = frames().into_iter().map(|frame| (medium, frame)).collect();
    let file = capture(&packets);
    let said = tshark::infos("emp", &file);
    assert_eq!(said.len(), packets.len());
    for ((_, frame), said) in packets.iter().zip(&said) {
        assert_eq!(*said, info(frame));
    }
    // The dissector also shows each parse error as a field.
    for ((_, frame), fields) in packets.iter().zip(tshark::fields("emp-fields", &file, &[])) {
        let why = Frame::parse(frame, Checksum::Crc).err().map(|why| vec![why.to_string()]);
        assert_eq!(fields.get("sovia.malformed"), why.as_ref());
    }
}
