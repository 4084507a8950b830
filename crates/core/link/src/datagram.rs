//! Messages of an unreliable connection: each arrives complete and at most once, or not at all.

use crate::message::Message;
use crate::wire::{Part, Payload};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of incomplete messages. Beyond it the oldest is dropped.
const INCOMPLETE_MAX: usize = 64;
/// Distance behind the newest message up to which a message is still accepted.
const WINDOW: u64 = 1024;

/// Reassembles parts that come in any order, and drops messages with missing parts.
///
/// ```
/// use sovia_link::datagram::Datagrams;
/// use sovia_link::wire::{Operation, Part};
///
/// let mut datagrams = Datagrams::new(1000);
/// let part = |start, bytes| Part { operation: Operation::Send, immediate: None, total: 8, start, bytes };
/// assert!(datagrams.add(1, &part(4, b"gram")).is_none());
/// let whole = datagrams.add(1, &part(0, b"data")).expect("all parts are there");
/// assert_eq!(whole.bytes[..], *b"datagram");
/// ```
#[derive(Debug)]
pub struct Datagrams {
    /// Bytes of the longest message.
    longest: u32,
    incomplete: BTreeMap<u64, Incomplete>,
    /// Numbers of completed messages within the window.
    seen: BTreeSet<u64>,
    /// One more than the highest number.
    end: u64,
}

#[derive(Debug)]
struct Incomplete {
    bytes: Vec<u8>,
    /// Ranges of the parts that have arrived, from start to end.
    ranges: BTreeMap<u32, u32>,
    missing: usize,
}

impl Incomplete {
    /// Returns true if a part belongs to this message and does not overlap an earlier part.
    fn lacks<B: Payload + AsRef<[u8]>>(&self, part: &Part<B>) -> bool {
        let before = self.ranges.range(..=part.start).next_back();
        let after = self.ranges.range(part.start..).next();
        part.total as usize == self.bytes.len()
            && before.is_none_or(|(&start, &end)| end <= part.start && start < part.start)
            && after.is_none_or(|(&start, _)| part.end() <= start)
    }
}

impl Datagrams {
    /// Accepts messages of up to `longest` bytes, and drops longer ones.
    pub fn new(longest: u32) -> Datagrams {
        let (incomplete, seen) = (BTreeMap::new(), BTreeSet::new());
        Datagrams { longest, incomplete, seen, end: 0 }
    }

    /// Adds a part of message `number`. Returns the message if the part completes it for the first time.
    pub fn add<B: Payload + AsRef<[u8]>>(
        &mut self,
        number: u64,
        part: &Part<B>,
    ) -> Option<Message> {
        let begin = self.end.saturating_sub(WINDOW);
        let is_bad = part.total > self.longest || part.is_announcement();
        if number < begin || self.seen.contains(&number) || is_bad {
            return None;
        }
        let total = part.total as usize;
        let entry = self.incomplete.entry(number).or_insert_with(|| Incomplete {
            bytes: vec![0; total],
            ranges: BTreeMap::new(),
            missing: total,
        });
        if entry.lacks(part) {
            let bytes = part.bytes.as_ref();
            entry.ranges.insert(part.start, part.end());
            entry.bytes[part.start as usize..][..bytes.len()].copy_from_slice(bytes);
            entry.missing -= bytes.len();
        }
        if entry.missing > 0 {
            if self.incomplete.len() > INCOMPLETE_MAX {
                self.incomplete.pop_first();
            }
            return None;
        }
        let bytes = self.incomplete.remove(&number)?.bytes;
        self.done(number);
        Some(Message { operation: part.operation, immediate: part.immediate, bytes })
    }

    fn done(&mut self, number: u64) {
        self.end = self.end.max(number.saturating_add(1));
        let begin = self.end.saturating_sub(WINDOW);
        self.seen.insert(number);
        self.seen = self.seen.split_off(&begin);
        self.incomplete = self.incomplete.split_off(&begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Whole;
    use crate::message::parts;
    use crate::wire::Operation;
    use proptest::prelude::*;

    fn message(n: u64) -> Vec<u8> {
        (0..n % 70).map(|i| (n + i) as u8).collect()
    }

    proptest! {
        /// Parts may be lost, repeated and reordered. Each message arrives complete and at most once.
        #[test]
        fn whole_and_at_most_once(picks in prop::collection::vec((0u64..40, 0usize..8), 0..600)) {
            let mut datagrams = Datagrams::new(1000);
            let mut got = BTreeSet::new();
            for (number, at) in picks {
                let all: Vec<_> = parts(Operation::Send, None, Whole::from(message(number)), 10).collect();
                if let Some(whole) = datagrams.add(number, &all[at % all.len()]) {
                    prop_assert_eq!(whole.bytes, message(number));
                    prop_assert!(got.insert(number), "{} came twice", number);
                }
            }
        }
    }

    #[test]
    fn incomplete_messages_are_bounded() {
        let mut datagrams = Datagrams::new(1000);
        for number in 0..10_000 {
            let first = parts(Operation::Send, None, Whole::from(vec![0; 20]), 10).next().unwrap();
            assert_eq!(datagrams.add(number, &first), None);
            assert!(datagrams.incomplete.len() <= INCOMPLETE_MAX);
        }
    }

    fn part(total: u32, start: u32, bytes: &[u8]) -> Part<&[u8]> {
        Part { operation: Operation::Send, immediate: None, total, start, bytes }
    }

    #[test]
    fn parts_that_overlap_or_belong_to_another_message_are_dropped() {
        let mut datagrams = Datagrams::new(1000);
        assert_eq!(datagrams.add(0, &part(10, 4, b"efg")), None);
        for odd in
            [part(10, 2, b"xxx"), part(10, 6, b"xx"), part(10, 4, b"xxxx"), part(9, 0, b"xx")]
        {
            assert_eq!(datagrams.add(0, &odd), None);
        }
        assert_eq!(datagrams.add(0, &part(10, 0, b"abcd")), None);
        let whole = datagrams.add(0, &part(10, 7, b"hij")).unwrap();
        assert_eq!(whole.bytes, b"abcdefghij");
    }

    #[test]
    fn message_that_is_too_long_takes_no_memory() {
        let mut datagrams = Datagrams::new(1000);
        assert_eq!(datagrams.add(0, &part(1001, 0, b"x")), None);
        assert!(datagrams.incomplete.is_empty());
    }
}
