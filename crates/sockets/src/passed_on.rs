//! Connections that a family's processes have sent to other processes.
//!
//! A process that receives one finds here what it was in the family, and so which processes of that may have it still
//! ([`crate::inheritance`]). The last few are on record: a message is received soon.

use core::sync::atomic::{AtomicU64, Ordering};

/// Connections on record.
const ENTRIES: usize = 64;
/// Words of the header: how the family's records are laid out; the inode of the file with its locks; how many
/// connections have been sent; whether one of the family has looked at a message with a connection that it did not take.
const HEADER: usize = 4;
/// Words of an entry: the socket's cookie; place and generation; role; the inode of the socket that it is sent to.
const EACH: usize = 4;
const WORDS: usize = HEADER + EACH * ENTRIES;

/// The record, in the family's memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PassedOn {
    words: [AtomicU64; WORDS],
}

/// A connection that has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Its place in the records of the family.
    pub(crate) index: u32,
    /// Its life in that place.
    pub(crate) generation: u32,
    /// Whether `connect` opened it.
    pub(crate) is_connector: bool,
    /// The socket that it is sent to: its inode.
    pub(crate) to: u64,
}

/// How long the record is, in bytes.
pub(crate) const LEN: usize = WORDS * 8;

impl PassedOn {
    /// Says whose record it is.
    pub(crate) fn begin(&self, layout: u64, locks: u64) {
        self.words[0].store(layout, Ordering::Relaxed);
        self.words[1].store(locks, Ordering::Release);
    }

    /// The socket with that cookie is about to be sent.
    pub(crate) fn add(&self, cookie: u64, sent: Sent) {
        self.strike(cookie);
        let n = self.words[2].fetch_add(1, Ordering::AcqRel) as usize % ENTRIES;
        let entry = &self.words[HEADER + n * EACH..][..EACH];
        // Without a cookie no process believes the rest.
        entry[0].store(0, Ordering::Release);
        let place = u64::from(sent.index) << 32 | u64::from(sent.generation);
        entry[1].store(place, Ordering::Release);
        entry[2].store(u64::from(sent.is_connector), Ordering::Release);
        entry[3].store(sent.to, Ordering::Release);
        entry[0].store(cookie, Ordering::Release);
    }

    /// The socket with that cookie has come to one of the family. True if this call has struck it.
    pub(crate) fn strike(&self, cookie: u64) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let strike = |entry: &[AtomicU64]| {
            cookie != 0 && entry[0].compare_exchange(cookie, 0, success, failure).is_ok()
        };
        self.words[HEADER..].chunks_exact(EACH).map(strike).fold(false, |any, one| any | one)
    }

    /// One of the family has looked at a message with a connection, which another one of them may take.
    pub(crate) fn note_look(&self) {
        self.words[3].store(1, Ordering::Release);
    }

    /// What it says now.
    pub(crate) fn read(&self) -> Copy {
        Copy(core::array::from_fn(|n| self.words[n].load(Ordering::Acquire)))
    }
}

/// What such a record has said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Copy([u64; WORDS]);

impl Copy {
    /// Of the bytes of a file.
    pub(crate) fn of(bytes: &[u8; LEN]) -> Copy {
        let word =
            |n: usize| bytes[n * 8..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        Copy(core::array::from_fn(word))
    }

    /// How the family's records are laid out.
    pub(crate) fn layout(&self) -> u64 {
        self.0[0]
    }

    /// The inode of the file with the family's locks.
    pub(crate) fn locks(&self) -> u64 {
        self.0[1]
    }

    /// Whether one of the family has looked at a message with a connection that it did not take.
    pub(crate) fn has_looked(&self) -> bool {
        self.0[3] != 0
    }

    /// What the socket with that cookie was in the family, if it is among the last that have been sent.
    pub(crate) fn find(&self, cookie: u64) -> Option<Sent> {
        let mut entries = self.0[HEADER..].chunks_exact(EACH);
        let entry = entries.find(|entry| entry[0] == cookie && cookie != 0)?;
        Some(Sent {
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
        let sent = |n: u32| Sent { index: n, generation: !n, is_connector: n < 50, to: 5 };
        (1..100).for_each(|n| record.add(u64::from(n), sent(n)));
        // SAFETY: words without padding, which no other thread has.
        let bytes = unsafe { &*core::ptr::from_ref(&*record).cast::<[u8; LEN]>() };
        let copy = Copy::of(bytes);
        assert_eq!(copy, record.read());
        assert_eq!((copy.layout(), copy.locks()), (7, 8));
        assert!((36..100).all(|n| copy.find(u64::from(n)) == Some(sent(n))));
        assert_eq!(copy.find(35), None);
        assert!(record.strike(99) && !record.strike(99) && record.read().find(99).is_none());
    }
}
