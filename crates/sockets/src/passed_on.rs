//! Connections that a family's processes have sent to other processes.
//!
//! A process that receives a connection finds here the connection's slot in the sender's family. The slot shows
//! which processes may still hold the connection ([`crate::other_families`]). Only the last few connections are
//! recorded, because a message is usually received soon after it was sent.

use core::sync::atomic::{AtomicU64, Ordering};

/// Number of connections that can be recorded.
const ENTRIES: usize = 64;
/// Number of words in the header. Words 0 to 2: layout of the family's records, inode of the file with the family's
/// locks, number of connections sent. Word 3: 1 once a process of the family has peeked at a message with a
/// connection but not taken it.
const HEADER: usize = 4;
/// Number of words in an entry: the socket's cookie, the slot and generation, the role, the inode of the
/// destination socket.
const EACH: usize = 4;
const WORDS: usize = HEADER + EACH * ENTRIES;

/// The record of sent connections, in the family's memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PassedOn {
    words: [AtomicU64; WORDS],
}

/// A connection that has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentConnection {
    /// The connection's slot in the family's records.
    pub(crate) index: u32,
    /// The connection's generation in this slot.
    pub(crate) generation: u32,
    /// Set if `connect` opened the connection.
    pub(crate) is_connector: bool,
    /// Inode of the socket to which the connection is sent.
    pub(crate) to: u64,
}

/// Length of a [`PassedOn`] in bytes.
pub(crate) const LEN: usize = WORDS * 8;

impl PassedOn {
    /// Writes the header, which identifies the family.
    pub(crate) fn begin(&self, layout: u64, locks: u64) {
        self.words[0].store(layout, Ordering::Relaxed);
        self.words[1].store(locks, Ordering::Release);
    }

    /// Records that the socket with cookie `cookie` is about to be sent.
    pub(crate) fn add(&self, cookie: u64, sent: SentConnection) {
        self.strike(cookie);
        let n = self.words[2].fetch_add(1, Ordering::AcqRel) as usize % ENTRIES;
        let entry = &self.words[HEADER + n * EACH..][..EACH];
        // Clear the cookie first, so that readers ignore the entry while it changes.
        entry[0].store(0, Ordering::Release);
        let place = u64::from(sent.index) << 32 | u64::from(sent.generation);
        entry[1].store(place, Ordering::Release);
        entry[2].store(u64::from(sent.is_connector), Ordering::Release);
        entry[3].store(sent.to, Ordering::Release);
        entry[0].store(cookie, Ordering::Release);
    }

    /// Records that a process of the family has received the socket with cookie `cookie`. Returns true if this call
    /// removed the socket's entry.
    pub(crate) fn strike(&self, cookie: u64) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let strike = |entry: &[AtomicU64]| {
            cookie != 0 && entry[0].compare_exchange(cookie, 0, success, failure).is_ok()
        };
        self.words[HEADER..].chunks_exact(EACH).map(strike).fold(false, |any, one| any | one)
    }

    /// Records that a process of the family has peeked at a message with a connection. Another process of the
    /// family may take this connection.
    pub(crate) fn note_look(&self) {
        self.words[3].store(1, Ordering::Release);
    }

    /// Returns a copy of all words.
    pub(crate) fn read(&self) -> Copy {
        Copy(core::array::from_fn(|n| self.words[n].load(Ordering::Acquire)))
    }
}

/// A copy of a [`PassedOn`], of this family or another one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Copy([u64; WORDS]);

impl Copy {
    /// Decodes the bytes of a [`PassedOn`] that were read from a file.
    pub(crate) fn of(bytes: &[u8; LEN]) -> Copy {
        let word =
            |n: usize| bytes[n * 8..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        Copy(core::array::from_fn(word))
    }

    /// Returns the layout of the family's records.
    pub(crate) fn layout(&self) -> u64 {
        self.0[0]
    }

    /// Returns the inode of the file with the family's locks.
    pub(crate) fn locks(&self) -> u64 {
        self.0[1]
    }

    /// Returns true if a process of the family has peeked at a message with a connection but not taken it.
    pub(crate) fn has_looked(&self) -> bool {
        self.0[3] != 0
    }

    /// Returns the entry of the socket with cookie `cookie`, if it is still recorded.
    pub(crate) fn find(&self, cookie: u64) -> Option<SentConnection> {
        let mut entries = self.0[HEADER..].chunks_exact(EACH);
        let entry = entries.find(|entry| entry[0] == cookie && cookie != 0)?;
        Some(SentConnection {
            index: (entry[1] >> 32) as u32,
            generation: entry[1] as u32,
            is_connector: entry[2] != 0,
            to: entry[3],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_found() {
        // SAFETY: all-zero memory is an empty record.
        let record: Box<PassedOn> = unsafe { Box::new_zeroed().assume_init() };
        record.begin(7, 8);
        assert_eq!(record.read().find(0), None);
        let sent =
            |n: u32| SentConnection { index: n, generation: !n, is_connector: n < 50, to: 5 };
        (1..100).for_each(|n| record.add(u64::from(n), sent(n)));
        // SAFETY: the record consists of `LEN` bytes of words without padding, and no other thread has it.
        let bytes = unsafe { &*core::ptr::from_ref(&*record).cast::<[u8; LEN]>() };
        let copy = Copy::of(bytes);
        assert_eq!(copy, record.read());
        assert_eq!((copy.layout(), copy.locks()), (7, 8));
        assert!((36..100).all(|n| copy.find(u64::from(n)) == Some(sent(n))));
        assert_eq!(copy.find(35), None);
        assert!(record.strike(99) && !record.strike(99) && record.read().find(99).is_none());
    }
}
