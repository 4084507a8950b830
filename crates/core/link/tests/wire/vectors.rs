//! Parses the frames of `tests/vectors.txt`, and emits them again byte for byte.

use crate::wire::packets::{Owned, owned};
use sovia_link::wire::{
    Answer, Checksum, Closing, EndId, Held, Item, Meeting, Operation, Packet, Part, Report,
    Request, Seen, Sending,
};
use std::collections::HashMap;
use via::{NetAddress, Reliability, ViAttributes};

/// A parsed line of meaning.
struct Meaning<'a> {
    words: Vec<&'a str>,
    values: HashMap<&'a str, &'a str>,
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

fn small(text: &str) -> u32 {
    number(text).try_into().unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|two| (two[0] << 4 | two[1]) as u8).collect()
}

fn split<const N: usize>(text: &str, at: char) -> [&str; N] {
    text.split(at).collect::<Vec<_>>().try_into().unwrap()
}

impl<'a> Meaning<'a> {
    fn of(line: &'a str) -> Meaning<'a> {
        let (values, words): (Vec<_>, Vec<_>) =
            line.split_whitespace().partition(|word| word.contains('='));
        let values = values.into_iter().map(|value| value.split_once('=').unwrap()).collect();
        Meaning { words, values }
    }

    fn u64(&self, key: &str) -> u64 {
        number(self.values.get(key).unwrap_or_else(|| panic!("there is no {key}")))
    }

    fn u32(&self, key: &str) -> u32 {
        self.u64(key).try_into().unwrap()
    }

    fn end(&self, key: &str) -> EndId {
        EndId(self.u64(key))
    }

    fn operation(&self, word: &str) -> Option<Operation> {
        Some(match word {
            "send" => Operation::Send,
            "write" => {
                Operation::Write { address: self.u64("address"), handle: self.u32("handle") }
            }
            "reply" => Operation::ReadReply { read: self.u64("read") },
            _ => return None,
        })
    }

    fn part(&self, operation: Operation) -> Part<Vec<u8>> {
        let immediate = self.values.get("immediate").map(|text| small(text));
        let (total, start) = (self.u32("total"), self.u32("start"));
        Part { operation, immediate, total, start, bytes: hex(self.values["bytes"]) }
    }

    fn item(&self, word: &str) -> Item<Vec<u8>> {
        if let Some(operation) = self.operation(word) {
            return Item::Part(self.part(operation));
        }
        if word == "read" {
            let (address, handle) = (self.u64("address"), self.u32("handle"));
            return Item::Read { address, handle, length: self.u32("length") };
        }
        assert_eq!(word, "close");
        let item = self.u64("item");
        Item::Close(match self.u64("code") {
            0 => Closing::Disconnected,
            1 => Closing::Broke,
            2 => Closing::NoReceive(item),
            3 => Closing::BadReceive(item),
            4 => Closing::RdmaDenied(item),
            code => panic!("there is no code {code}"),
        })
    }

    fn report(&self) -> Report {
        let mut report = Report::plain(self.u32("next"));
        report.room = self.u32("room");
        report.marked = self.values.get("marked").map(|text| small(text));
        report.seen = self.values.get("seen").map(|text| {
            let [number, transmission, delay] = split(text, '/').map(small);
            Seen { sending: Sending { number, transmission }, delay }
        });
        for range in self.values.get("held").into_iter().flat_map(|text| text.split(',')) {
            let [skip, length] = split(range, '+').map(small);
            assert!(report.push(Held { skip, length }));
        }
        report
    }

    fn address(&self, key: &str) -> NetAddress {
        let [host, discriminator] = split(self.values[key], '/').map(hex);
        NetAddress::new(&host, &discriminator)
    }

    fn attributes(&self) -> ViAttributes {
        let flags = self.u64("flags");
        ViAttributes {
            reliability: Reliability::from_bits(self.u32("level") as u16).unwrap(),
            max_transfer_size: self.u32("largest"),
            ptag: None,
            enable_rdma_write: flags & 1 != 0,
            enable_rdma_read: flags & 2 != 0,
        }
    }

    fn answer(&self) -> Answer {
        if self.values.contains_key("accepted") {
            let attributes = self.attributes();
            return Answer::Accepted { conn: self.end("accepted"), attributes };
        }
        match self.u64("verdict") {
            1 => Answer::NoMatch,
            2 => Answer::Rejected,
            3 => Answer::Reliability,
            4 => Answer::MaxTransferSize,
            verdict => panic!("there is no verdict {verdict}"),
        }
    }

    fn meeting(&self, kind: &str) -> Meeting {
        match kind {
            "request" => Meeting::Request(Box::new(Request {
                id: self.end("from"),
                local: self.address("local"),
                remote: self.address("remote"),
                attributes: self.attributes(),
                peer: self.u64("flags") & 4 != 0,
            })),
            "pending" => Meeting::Pending { request: self.end("request") },
            "answer" => Meeting::Answer { request: self.end("request"), answer: self.answer() },
            "settled" => {
                let connected = self.u64("connected") == 1;
                Meeting::Settled { request: self.end("request"), connected }
            }
            "cancel" => Meeting::Cancel { request: self.end("request") },
            "poke" => {
                Meeting::Poke { local: self.address("local"), remote: self.address("remote") }
            }
            "poked" => {
                Meeting::Poked { local: self.address("local"), remote: self.address("remote") }
            }
            kind => panic!("there is no kind {kind}"),
        }
    }

    /// Returns the packet that the line describes, and whether it has a checksum.
    fn packet(&self) -> (Owned, Checksum) {
        let (link, words) = match self.words.split_first() {
            Some((&"unchecked", words)) => (Checksum::Link, words),
            _ => (Checksum::Crc, &self.words[..]),
        };
        let ends = || (self.end("to"), self.end("from"));
        let packet = match words[0] {
            "stream" => {
                let (number, transmission) = (self.u32("number"), self.u32("transmission"));
                let (to, from) = ends();
                let sending = Sending { number, transmission };
                let item = self.item(words[1]);
                Packet::Stream { to, from, sending, ack: self.u32("ack"), item }
            }
            "ack" => {
                let (to, from) = ends();
                Packet::Ack { to, from, report: self.report() }
            }
            "datagram" => {
                let (to, from) = ends();
                let part = self.part(self.operation(words[1]).unwrap());
                Packet::Datagram { to, from, message: self.u64("message"), part }
            }
            "gone" => Packet::Gone { to: self.end("to") },
            "hello" => {
                let (to, from) = ends();
                Packet::Hello { to, from }
            }
            "probe" => {
                let (to, from) = ends();
                let (nonce, padding) = (self.u64("nonce"), self.u32("padding"));
                Packet::Probe { to, from, nonce, padding }
            }
            "echo" => {
                let (to, from) = ends();
                Packet::Echo { to, from, nonce: self.u64("nonce") }
            }
            kind => Packet::Meeting(self.meeting(kind)),
        };
        (packet, link)
    }
}

/// Returns each vector's name, meaning and bytes.
fn vectors() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let text = include_str!("../vectors.txt");
    let blocks = text.split("\n\n").skip(1);
    let take_apart = |block: &'static str| {
        let (name, rest) = block.trim().split_once('\n').unwrap();
        let (meaning, bytes) = rest.split_once('\n').unwrap();
        (name.strip_prefix("# ").unwrap(), meaning, hex(bytes))
    };
    blocks.map(take_apart).collect()
}

#[test]
fn every_vector_is_parsed_and_emitted_byte_for_byte() {
    let mut kinds = std::collections::BTreeSet::new();
    for (name, meaning, bytes) in vectors() {
        if let Some(reason) = meaning.strip_prefix("refused: ") {
            let said = Packet::parse(&bytes).unwrap_err().to_string();
            assert_eq!(said, reason, "{name}");
            continue;
        }
        kinds.insert(bytes[1]);
        let (packet, link) = Meaning::of(meaning).packet();
        assert_eq!(Packet::parse_for(&bytes, link).map(owned), Ok(packet.clone()), "{name}");
        let mut emitted = vec![0xEE; 3];
        packet.emit_for(&mut emitted, link);
        assert_eq!(emitted, bytes, "{name}");
    }
    let all: Vec<u8> = (1..=7).chain(16..=22).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all, "a kind has no vector");
}
