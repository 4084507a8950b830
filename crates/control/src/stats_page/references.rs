//! The processes of a family that have a connection, as one word.
//!
//! A process is named by its process slot. The lowest slots have a bit each. When a process with a higher slot also
//! gets the connection, the word becomes a list of up to four slots. If the word has no room for a process, the bit
//! `MORE` says that unnamed processes may have the connection.

/// Number of slots that have a bit each.
const BITS: u32 = 62;
/// Set if the connection may have processes that the word does not name.
const MORE: u64 = 1 << 62;
/// Set if the word is a list.
const LIST: u64 = 1 << 63;
/// Number of entries of a list. An entry has `ENTRY` bits, and holds a process slot plus one, or 0.
const ENTRIES: u32 = 4;
const ENTRY: u32 = 15;
const ENTRY_MASK: u64 = (1 << ENTRY) - 1;

/// Number of process slots that a word can name.
pub const PROCESS_SLOTS: u32 = ENTRY_MASK as u32;

/// Processes that have a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct References(u64);

impl References {
    /// No process.
    pub const NONE: References = References(0);

    /// Converts a word.
    pub fn from_word(word: u64) -> References {
        References(word)
    }

    /// Returns the word, which is 0 for no process.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns true if no process has the connection.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the connection may have processes that the word does not name.
    pub fn may_be_more(self) -> bool {
        self.0 & MORE != 0
    }

    /// Returns the named process slots.
    pub fn slots(self) -> impl Iterator<Item = u32> {
        let bits = if self.is_list() { 0 } else { BITS };
        let entries = if self.is_list() { ENTRIES } else { 0 };
        let by_bit = (0..bits).filter(move |slot| self.0 >> slot & 1 != 0);
        by_bit.chain((0..entries).filter_map(move |at| self.entry(at)))
    }

    /// Returns true if the word names the process with slot `slot`.
    pub fn names(self, slot: u32) -> bool {
        if self.is_list() {
            (0..ENTRIES).any(|at| self.entry(at) == Some(slot))
        } else {
            slot < BITS && self.0 >> slot & 1 != 0
        }
    }

    /// Returns the bit by which a word names the process with slot `slot`. `None` if it names the process in a list
    /// only.
    pub fn bit_of(slot: u32) -> Option<u64> {
        (slot < BITS).then(|| 1 << slot)
    }

    /// Returns true if the word names a process by this bit ([`References::bit_of`]).
    #[inline(always)]
    pub fn has_bit(self, bit: u64) -> bool {
        self.0 & (LIST | bit) == bit
    }

    /// Returns true if the process with slot `slot` may have the connection.
    pub fn may_have(self, slot: u32) -> bool {
        self.names(slot) || self.may_be_more()
    }

    /// Returns these processes and the process with slot `slot`.
    #[must_use]
    pub fn with(self, slot: u32) -> References {
        if self.names(slot) {
            return self;
        }
        if !self.is_list() && slot < BITS {
            return References(self.0 | 1 << slot);
        }
        if slot < PROCESS_SLOTS
            && let Some(list) = self.as_list()
            && let Some(at) = list.free_entry()
        {
            return References(list.0 | u64::from(slot + 1) << (at * ENTRY));
        }
        self.with_more()
    }

    /// Returns these processes and possible unnamed processes.
    #[must_use]
    pub fn with_more(self) -> References {
        References(self.0 | MORE)
    }

    /// Returns these processes without the process with slot `slot`. Unnamed processes stay.
    #[must_use]
    pub fn without(self, slot: u32) -> References {
        if !self.names(slot) {
            return self;
        }
        if !self.is_list() {
            return References(self.0 & !(1 << slot));
        }
        let mut rest = self.0;
        for at in (0..ENTRIES).filter(|&at| self.entry(at) == Some(slot)) {
            rest &= !(ENTRY_MASK << (at * ENTRY));
        }
        References(rest).normal()
    }

    fn is_list(self) -> bool {
        self.0 & LIST != 0
    }

    /// Returns the slot in the entry `at` of a list. `None` if the entry is free.
    fn entry(self, at: u32) -> Option<u32> {
        ((self.0 >> (at * ENTRY) & ENTRY_MASK) as u32).checked_sub(1)
    }

    fn free_entry(self) -> Option<u32> {
        (0..ENTRIES).find(|&at| self.entry(at).is_none())
    }

    /// Returns these processes as a list. `None` if a list has no room for all processes.
    fn as_list(self) -> Option<References> {
        if self.is_list() {
            return Some(self);
        }
        let mut list = LIST | self.0 & MORE;
        for (at, slot) in (0..).zip(self.slots()) {
            if at == ENTRIES {
                return None;
            }
            list |= u64::from(slot + 1) << (at * ENTRY);
        }
        Some(References(list))
    }

    /// Converts an empty list to a word without named processes.
    fn normal(self) -> References {
        if self.0 & !MORE == LIST { References(self.0 & MORE) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn slot() -> impl Strategy<Value = u32> {
        prop_oneof![0..4u32, 0..BITS + 4, 0..PROCESS_SLOTS + 2]
    }

    proptest! {
        /// Compares a word with a set after each step. All slots that the word names are in the set. If the word
        /// lacks a slot of the set, [`References::may_be_more`] is true.
        #[test]
        fn a_word_names_what_a_set_would(
            steps in prop::collection::vec((any::<bool>(), slot()), 0..40)
        ) {
            let (mut word, mut set) = (References::NONE, BTreeSet::new());
            for (adds, slot) in steps {
                if adds {
                    word = word.with(slot);
                    set.insert(slot);
                } else {
                    word = word.without(slot);
                    set.remove(&slot);
                }
                let named: BTreeSet<u32> = word.slots().collect();
                prop_assert!(named.is_subset(&set), "{named:?} of {set:?}");
                prop_assert!(word.may_be_more() || named == set, "{named:?} of {set:?}");
                prop_assert!(set.iter().all(|&slot| word.may_have(slot)));
                prop_assert!(named.iter().all(|&slot| word.names(slot)));
                prop_assert_eq!(word.is_empty(), named.is_empty() && !word.may_be_more());
                prop_assert_eq!(References::from_word(word.word()), word);
            }
        }

        /// A reader can use every word, because a faulty process may have written any value.
        #[test]
        fn every_word_means_something(word: u64, slot in slot()) {
            let references = References::from_word(word);
            prop_assert!(references.slots().all(|slot| slot < PROCESS_SLOTS && references.names(slot)));
            prop_assert!(references.with(slot).may_have(slot));
            prop_assert!(!references.without(slot).names(slot));
        }
    }

    #[test]
    fn a_few_high_slots_or_all_low_slots_are_named() {
        let word =
            [3, 61, 62, PROCESS_SLOTS - 1].into_iter().fold(References::NONE, References::with);
        assert!(word.slots().eq([3, 61, 62, PROCESS_SLOTS - 1]) && !word.may_be_more());
        assert!(word.with(7).may_be_more(), "a list has no room for a fifth");
        let low = (0..BITS).fold(References::NONE, References::with);
        assert!(low.slots().eq(0..BITS) && !low.may_be_more());
        assert!(low.with(BITS).may_be_more() && low.with(BITS).slots().eq(0..BITS));
    }
}
