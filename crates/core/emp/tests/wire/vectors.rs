//! Parses each frame of `tests/vectors.txt`, and emits it byte for byte.

use sovia_emp::wire::{Ack, Body, Frame, Greeting, Head, Hello, Message, Why};
use sovia_link::wire::{Checksum, EndId};
use std::collections::HashMap;

struct Meaning<'a> {
    kind: &'a str,
    values: HashMap<&'a str, &'a str>,
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|two| (two[0] << 4 | two[1]) as u8).collect()
}

impl Meaning<'_> {
    fn of(line: &str) -> Meaning<'_> {
        let (kind, rest) = line.split_once(' ').unwrap();
        let values = rest.split(' ').map(|word| word.split_once('=').unwrap()).collect();
        Meaning { kind, values }
    }

    fn u64(&self, key: &str) -> u64 {
        number(self.values.get(key).unwrap_or_else(|| panic!("there is no {key}")))
    }

    fn u32(&self, key: &str) -> u32 {
        self.u64(key).try_into().unwrap()
    }

    fn u16(&self, key: &str) -> u16 {
        self.u64(key).try_into().unwrap()
    }

    fn ack(&self) -> Option<Ack> {
        let values: Vec<_> =
            self.values.get("ack")?.split('/').map(|it| number(it) as u32).collect();
        let [id, number, below, done] = values.try_into().unwrap();
        Some(Ack { id, number, below, done })
    }

    fn greeting(&self) -> Greeting {
        Greeting { nonce: self.u64("nonce"), you: self.u16("you"), first: self.u32("first") }
    }

    fn message(&self) -> Message {
        Message {
            total: self.u32("total"),
            frames: self.u32("frames"),
            size: self.u16("size"),
            after: self.u16("after"),
            tag: self.u32("tag"),
            collection: self.u16("collection") as u8,
        }
    }

    fn body(&self) -> Body<Vec<u8>> {
        match self.kind {
            "hello" => {
                let (key, own_key) = (self.u64("key"), self.u64("own"));
                return Body::Hello(Hello { key, own_key, greeting: self.greeting() });
            }
            "welcome" => return Body::Welcome(self.greeting()),
            "gone" => return Body::Gone { name: EndId(self.u64("name")) },
            _ => {}
        }
        let (sender, id) = (self.u16("sender"), || self.u32("id"));
        match self.kind {
            "first" | "later" => Body::Data {
                sender,
                head: Head { id: id(), number: self.u32("number") },
                message: (self.kind == "first").then(|| self.message()),
                ack: self.ack(),
                bytes: hex(self.values["bytes"]),
            },
            "ack" => Body::Ack { sender, ack: self.ack().unwrap() },
            "refused" => {
                let why = [Why::TooLong, Why::GivenUp][usize::from(self.u16("why")) - 1];
                Body::Refused { sender, id: id(), why }
            }
            "noted" => Body::Noted { sender, id: id() },
            "notready" => Body::NotReady { sender, id: id(), is_early: self.u16("early") == 1 },
            "go" => Body::Go { sender, tag: self.u32("tag") },
            kind => panic!("there is no {kind}"),
        }
    }

    fn frame(&self) -> Frame<Vec<u8>> {
        Frame { to: EndId(self.u64("to")), from: EndId(self.u64("from")), body: self.body() }
    }
}

#[test]
fn every_vector_is_parsed_and_emitted() {
    let text = include_str!("../vectors.txt");
    let (mut taken, mut refused) = (0, 0);
    for block in text.split("\n\n") {
        let mut lines = block.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
        let Some(meaning) = lines.next() else { continue };
        let bytes = hex(&lines.collect::<String>());
        let parsed = Frame::parse(&bytes, Checksum::Crc);
        if let Some(why) = meaning.strip_prefix("refused: ") {
            assert_eq!(parsed.unwrap_err().to_string(), why);
            refused += 1;
            continue;
        }
        let frame = Meaning::of(meaning).frame();
        let mut room = vec![0xff; 200];
        let len = frame.emit(&mut room, Checksum::Crc).unwrap();
        assert_eq!(room[..len], bytes[..], "{meaning}");
        let parsed = parsed.unwrap_or_else(|why| panic!("{meaning}: {why}"));
        let again = parsed.emit(&mut room, Checksum::Crc).unwrap();
        assert_eq!(room[..again], bytes[..], "{meaning}");
        // Ethernet's padding follows the frame.
        let padded = [&bytes[..], &[7; 9]].concat();
        assert_eq!(Frame::parse(&padded, Checksum::Crc).as_ref(), Ok(&parsed));
        taken += 1;
    }
    assert!(taken > 12 && refused > 15, "{taken} {refused}");
}

#[test]
fn a_frame_that_its_room_does_not_hold_is_not_written() {
    let body = Body::<[u8; 0]>::Go { sender: 1, tag: 2 };
    let frame = Frame { to: EndId(1), from: EndId(2), body };
    let mut room = [0; 100];
    let len = frame.emit(&mut room, Checksum::Crc).unwrap();
    assert_eq!(frame.emit(&mut room[..len - 1], Checksum::Crc), None);
    assert_eq!(frame.emit_with(&mut room[..len], Checksum::Crc, 1, |_| ()), None);
}
