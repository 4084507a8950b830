//! Messages of an unreliable connection: whole and at most once, or not at all.

use crate::message::Message;
use crate::packet::Part;
use std::collections::{BTreeMap, BTreeSet};

/// Messages that may be incomplete at a time; the oldest gives way.
const INCOMPLETE_MAX: usize = 64;
/// How far behind the newest message one may be and still be taken.
const WINDOW: u64 = 1024;

/// Puts parts together in whatever order they come, and forgets messages that lack some.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    incomplete: BTreeMap<u64, Incomplete>,
    /// Messages that have been complete, as far back as the window goes.
    seen: BTreeSet<u64>,
    /// One more than the newest.
    end: u64,
}

#[derive(Debug)]
struct Incomplete {
    bytes: Vec<u8>,
    /// Where the parts begin that have come.
    starts: BTreeSet<usize>,
    missing: usize,
}

impl Datagrams {
    /// A part of message `number`; the message, if it is complete for the first time now.
    pub(crate) fn add(&mut self, number: u64, part: &Part) -> Option<Message> {
        let begin = self.end.saturating_sub(WINDOW);
        if number < begin || self.seen.contains(&number) {
            return None;
        }
        let total = part.message.len();
        let entry = self.incomplete.entry(number).or_insert_with(|| Incomplete {
            bytes: vec![0; total],
            starts: BTreeSet::new(),
            missing: total,
        });
        if entry.starts.insert(part.start) {
            entry.bytes[part.start..part.end].copy_from_slice(part.bytes());
            entry.missing -= part.end - part.start;
        }
        if entry.missing > 0 {
            if self.incomplete.len() > INCOMPLETE_MAX {
                self.incomplete.pop_first();
            }
            return None;
        }
        let bytes = self.incomplete.remove(&number)?.bytes;
        self.done(number);
        Some(Message { kind: part.kind, immediate: part.immediate, bytes })
    }

    fn done(&mut self, number: u64) {
        self.end = self.end.max(number + 1);
        let begin = self.end.saturating_sub(WINDOW);
        self.seen.insert(number);
        self.seen = self.seen.split_off(&begin);
        self.incomplete = self.incomplete.split_off(&begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::parts;
    use crate::packet::Kind;
    use proptest::prelude::*;

    fn message(n: u64) -> Vec<u8> {
        (0..n % 70).map(|i| (n + i) as u8).collect()
    }

    proptest! {
        /// Whatever is lost, repeated and mixed up: whole, and at most once.
        #[test]
        fn whole_and_at_most_once(picks in prop::collection::vec((0u64..40, 0usize..8), 0..600)) {
            let mut datagrams = Datagrams::default();
            let mut got = BTreeSet::new();
            for (number, at) in picks {
                let all: Vec<_> = parts(Kind::Send, None, message(number), 10).collect();
                if let Some(whole) = datagrams.add(number, &all[at % all.len()]) {
                    prop_assert_eq!(whole.bytes, message(number));
                    prop_assert!(got.insert(number), "{} came twice", number);
                }
            }
        }
    }

    #[test]
    fn incomplete_messages_are_bounded() {
        let mut datagrams = Datagrams::default();
        for number in 0..10_000 {
            let first = parts(Kind::Send, None, vec![0; 20], 10).next().unwrap();
            assert_eq!(datagrams.add(number, &first), None);
            assert!(datagrams.incomplete.len() <= INCOMPLETE_MAX);
        }
    }
}
