//! Derives the fields of a frame from its line of meaning.

use crate::dissector::tshark::Fields;
use std::collections::HashMap;

/// A vector of `vectors.txt`.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) frame: Vec<u8>,
}

impl Vector {
    /// Returns the reason if the parser refuses the frame.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        self.meaning.strip_prefix("refused: ")
    }
}

/// Returns all vectors.
pub(crate) fn vectors() -> Vec<Vector> {
    let take_apart = |block: &'static str| {
        let (name, rest) = block.trim().split_once('\n').unwrap();
        let (meaning, bytes) = rest.split_once('\n').unwrap();
        let name = name.strip_prefix("# ").unwrap();
        let byte = |digits| u8::from_str_radix(digits, 16).unwrap();
        Vector { name, meaning, frame: bytes.split_whitespace().map(byte).collect() }
    };
    include_str!("../vectors.txt").split("\n\n").skip(1).map(take_apart).collect()
}

/// The numbers of kinds, items and verdicts in docs/reference/wire.md.
const KINDS: &[(&str, u64)] = &[
    ("stream", 1),
    ("ack", 2),
    ("datagram", 3),
    ("gone", 4),
    ("hello", 5),
    ("probe", 6),
    ("echo", 7),
    ("request", 16),
    ("pending", 17),
    ("answer", 18),
    ("settled", 19),
    ("cancel", 20),
    ("poke", 21),
    ("poked", 22),
];
const ITEMS: &[(&str, u64)] = &[("send", 1), ("write", 2), ("reply", 3), ("read", 4), ("close", 5)];

fn of(table: &[(&str, u64)], word: &str) -> u64 {
    table.iter().find(|(name, _)| *name == word).unwrap_or_else(|| panic!("{word}")).1
}

pub(crate) fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// Returns true if the field holds bytes in hexadecimal. Other fields are numbers.
pub(crate) fn is_bytes(field: &str) -> bool {
    ["bytes", "padding", "host", "discriminator", "malformed"]
        .iter()
        .any(|end| field.ends_with(end))
}

/// Returns the frame's fields, with the values that tshark must print. Numbers are in decimal.
pub(crate) fn fields(vector: &Vector) -> Fields {
    let mut fields = Fields::new();
    let mut put = |name: &'static str, value: String| {
        if !value.is_empty() {
            fields.entry(name).or_default().push(value);
        }
    };
    let mut words: Vec<&str> = vector.meaning.split_whitespace().collect();
    let unchecked = words[0] == "unchecked";
    if unchecked {
        words.remove(0);
    }
    let values: HashMap<&str, &str> =
        words.iter().filter_map(|word| word.split_once('=')).collect();
    let kind = of(KINDS, words[0]);
    put("sovia.version", "2".into());
    put("sovia.kind", kind.to_string());
    put("sovia.flags", u8::from(unchecked).to_string());
    put("sovia.checksum.status", if unchecked { "3" } else { "1" }.into());
    put("sovia.length", vector.frame.len().to_string());

    // The position of each end depends on the kind: `request` names the requester's end.
    let value = |key: &str| values.get(key).map_or(0, |text| number(text));
    let (to, from) = match kind {
        17 | 18 => (value("request"), value("accepted")),
        19 | 20 => (0, value("request")),
        _ => (value("to"), value("from")),
    };
    put("sovia.to", to.to_string());
    put("sovia.from", from.to_string());

    for (key, name) in [
        ("number", "sovia.number"),
        ("transmission", "sovia.transmission"),
        ("ack", "sovia.ack"),
        ("total", "sovia.total"),
        ("start", "sovia.start"),
        ("immediate", "sovia.immediate"),
        ("address", "sovia.address"),
        ("handle", "sovia.handle"),
        ("read", "sovia.read"),
        ("length", "sovia.read.length"),
        ("code", "sovia.close"),
        ("item", "sovia.close.item"),
        ("next", "sovia.report.next"),
        ("room", "sovia.report.room"),
        ("marked", "sovia.report.marked"),
        ("message", "sovia.message"),
        ("nonce", "sovia.nonce"),
        ("level", "sovia.terms.level"),
        ("flags", "sovia.terms.flags"),
        ("largest", "sovia.terms.largest"),
        ("verdict", "sovia.verdict"),
        ("connected", "sovia.connected"),
    ] {
        if values.contains_key(key) {
            put(name, value(key).to_string());
        }
    }
    if values.contains_key("accepted") {
        put("sovia.verdict", "0".into());
    }
    if let Some(word) = words[1..].iter().find(|word| !word.contains('=')) {
        put("sovia.item", of(ITEMS, word).to_string());
    }
    if let Some(bytes) = values.get("bytes") {
        put("sovia.bytes", (*bytes).into());
    }
    if let Some(padding) = values.get("padding") {
        put("sovia.probe.padding", "00".repeat(padding.parse().unwrap()));
    }
    let addresses = [
        ("local", "sovia.local.host", "sovia.local.discriminator"),
        ("remote", "sovia.remote.host", "sovia.remote.discriminator"),
    ];
    for (key, host, discriminator) in addresses {
        if let Some((first, second)) = values.get(key).and_then(|text| text.split_once('/')) {
            put(host, first.into());
            put(discriminator, second.into());
        }
    }
    if let Some(seen) = values.get("seen") {
        let names = [
            "sovia.report.seen.number",
            "sovia.report.seen.transmission",
            "sovia.report.seen.delay",
        ];
        for (name, text) in names.iter().zip(seen.split('/')) {
            put(name, number(text).to_string());
        }
    }
    if kind == 2 {
        let ranges: Vec<_> =
            values.get("held").into_iter().flat_map(|text| text.split(',')).collect();
        put("sovia.report.ranges", ranges.len().to_string());
        for (missing, there) in ranges.iter().filter_map(|range| range.split_once('+')) {
            put("sovia.report.range.missing", missing.into());
            put("sovia.report.range.there", there.into());
        }
    }
    fields
}
