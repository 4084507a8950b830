//! The queue of one direction of a VI: entries in shared memory, with one writer and one reader.
//!
//! Entry `n` lies in slot `n % SLOTS`. The two ends agree on the number of the connection's first entry, which is 0
//! for an [`Endpoint`](crate::Endpoint). The writer fills the slot and stores the slot's tag, `n + 1`, last. The
//! reader takes the entry once the tag is `n + 1`. A short message and its tag share one cache line, so the reader
//! loads no other line. The writer may reuse a slot once the reader has posted a receive for the slot. [`Credit`]
//! holds the number of posted receives. The writer loads this number only after it has used up the receives that it
//! knows of.

mod words;

use crate::sync::{At, AtomicU32, AtomicU64, Ordering, point};
use sovia_signal::access::{self, BadAddress};
use sovia_sys::{UserSlice, UserSliceMut};
use words::{store, store_checked, unpack, unpack_checked};

/// Number of entries of a ring; a power of two.
pub const SLOTS: u32 = 64;
/// Number of message bytes that an entry can hold.
pub const INLINE: usize = 8 * WORDS;
const WORDS: usize = 14;
/// Number of the [`INLINE`] bytes that lie in the entry's first cache line.
const FIRST_LINE: usize = 48;
const POOLED: u32 = 1 << 31;
const LEN_MAX: u32 = (1 << 24) - 1;

/// A queue entry of two cache lines. A message of up to 48 bytes uses only the first line.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot {
    /// Low half: the tag. High half: the message's length, and the `POOLED` flag if the bytes are in the pool.
    head: AtomicU64,
    /// Low half: immediate data. High half: the message's offset in the pool, in bytes, if it is pooled.
    more: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The header of an entry, loaded once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// 32 bits that travel with the message.
    pub immediate: u32,
    /// The message's length in bytes.
    pub len: u32,
    /// Offset of the message in the pool; `None` if the bytes are in the entry.
    pub pool_offset: Option<u32>,
}

impl Slot {
    /// Returns an empty slot.
    #[cfg(loom)]
    pub fn new() -> Slot {
        Slot {
            head: AtomicU64::new(0),
            more: AtomicU64::new(0),
            words: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Returns true if the slot holds entry `n`.
    #[inline]
    pub fn holds(&self, n: u32) -> bool {
        self.head.load(Ordering::Acquire) as u32 == n.wrapping_add(1)
    }

    /// Returns true if the slot still has the tag that precedes entry `n`. Uses a relaxed load, which orders no
    /// other access.
    #[inline]
    pub fn awaits(&self, n: u32) -> bool {
        is_before(n, self.head.load(Ordering::Relaxed) as u32)
    }

    /// Returns entry `n`'s header if the slot holds entry `n`.
    #[inline]
    pub fn read(&self, n: u32) -> Option<Entry> {
        self.read_or(n).ok()
    }

    /// Like [`Slot::read`], but returns the slot's tag as the error if the slot does not hold entry `n`.
    #[inline]
    pub(crate) fn read_or(&self, n: u32) -> Result<Entry, u32> {
        // SYNC: pairs with the Release store in `publish`, so the later loads of `more` and `words` see the
        // published entry.
        let head = self.head.load(Ordering::Acquire);
        if head as u32 != n.wrapping_add(1) {
            return Err(head as u32);
        }
        let more = self.more.load(Ordering::Relaxed);
        let high = (head >> 32) as u32;
        Ok(Entry {
            immediate: more as u32,
            len: high & LEN_MAX,
            pool_offset: (high & POOLED != 0).then_some((more >> 32) as u32),
        })
    }

    /// Copies bytes of an inline message to `out`, from byte `from` of the message on. Stops at the end of `out` or
    /// at byte [`INLINE`] of the message. Returns the number of bytes copied.
    #[inline]
    pub fn copy_out(&self, from: usize, out: &mut [u8]) -> usize {
        let n = out.len().min(INLINE.saturating_sub(from));
        let out = &mut out[..n];
        if from.is_multiple_of(8) {
            let mut words = self.words.get(from / 8..).unwrap_or(&[]).iter();
            let mut chunks = out.chunks_exact_mut(8);
            for (chunk, word) in (&mut chunks).zip(&mut words) {
                chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
            let rest = chunks.into_remainder();
            if let (false, Some(word)) = (rest.is_empty(), words.next()) {
                unpack(word.load(Ordering::Relaxed), rest);
            }
        } else {
            for (i, byte) in out.iter_mut().enumerate() {
                let at = from + i;
                let Some(word) = self.words.get(at / 8) else { break };
                *byte = word.load(Ordering::Relaxed).to_le_bytes()[at % 8];
            }
        }
        n
    }

    /// Copies `bytes` into the entry. `bytes.len()` must be at most [`INLINE`].
    ///
    /// Writes the second cache line first. The reader polls the first line, so the stores to the first line and to
    /// the tag should be close together. If the reader loads the first line between these stores, this line moves
    /// between the processors twice.
    #[inline]
    pub fn copy_in(&self, bytes: &[u8]) {
        if let Some((first, second)) = bytes.split_at_checked(FIRST_LINE) {
            store(&self.words[FIRST_LINE / 8..], second);
            store(&self.words[..FIRST_LINE / 8], first);
        } else {
            store(&self.words, bytes);
        }
    }

    /// Like [`Slot::copy_in`], but copies from the program's memory.
    ///
    /// # Errors
    /// [`BadAddress`] if some of `bytes` cannot be read. In this case the caller must not publish the entry.
    #[inline]
    pub fn copy_in_checked(&self, bytes: UserSlice<'_>) -> Result<(), BadAddress> {
        let mut fault = access::Fault::none();
        if bytes.len() >= FIRST_LINE {
            store_checked(&self.words[FIRST_LINE / 8..], bytes.skip(FIRST_LINE), &mut fault);
            store_checked(&self.words[..FIRST_LINE / 8], bytes.first(FIRST_LINE), &mut fault);
        } else {
            store_checked(&self.words, bytes, &mut fault);
        }
        fault.check()
    }

    /// Like [`Slot::copy_out`], but copies to the program's memory.
    ///
    /// # Errors
    /// [`BadAddress`] if some of `out` cannot be written.
    #[inline]
    pub fn copy_out_checked(&self, from: usize, out: UserSliceMut<'_>) -> Result<(), BadAddress> {
        let mut fault = access::Fault::none();
        let n = out.len().min(INLINE.saturating_sub(from));
        let out = out.as_mut_ptr();
        // SAFETY: every store below is within the first `n` bytes of `out`, because `n <= out.len()`. `access` turns a
        // fault on the program's memory into an error.
        if from.is_multiple_of(8) {
            let mut at = 0;
            let mut words = self.words.get(from / 8..).unwrap_or(&[]).iter();
            while n - at >= 8 {
                let Some(word) = words.next() else { return fault.check() };
                let word = u64::from_le(word.load(Ordering::Relaxed));
                // SAFETY: `n - at >= 8`, so the 8 bytes at `at` are within the program's buffer `out`.
                unsafe { access::store_word(out.wrapping_add(at).cast(), word, &mut fault) };
                at += 8;
            }
            if let (true, Some(word)) = (at < n, words.next()) {
                // SAFETY: the `n - at` bytes at `at` are within the program's buffer `out`, and `n - at` is 1 to 7
                // after the loop.
                unsafe {
                    unpack_checked(
                        word.load(Ordering::Relaxed),
                        out.wrapping_add(at),
                        n - at,
                        &mut fault,
                    )
                };
            }
        } else {
            for i in 0..n {
                let at = from + i;
                let Some(word) = self.words.get(at / 8) else { break };
                let byte = word.load(Ordering::Relaxed).to_le_bytes()[at % 8];
                // SAFETY: `i < n`, so the byte is within the program's buffer `out`.
                unsafe { access::store_word(out.wrapping_add(i), byte, &mut fault) };
            }
        }
        fault.check()
    }

    /// Stores the header and makes entry `n` visible to the reader.
    #[inline]
    pub fn publish(&self, n: u32, entry: Entry) {
        let mut high = entry.len & LEN_MAX;
        if entry.pool_offset.is_some() {
            high |= POOLED;
        }
        let offset = entry.pool_offset.unwrap_or(0);
        self.more.store(u64::from(entry.immediate) | u64::from(offset) << 32, Ordering::Relaxed);
        point(At::Publishing);
        // SYNC: pairs with the reader's Acquire load of the tag, so the reader sees all earlier stores to the entry.
        self.head.store(u64::from(n.wrapping_add(1)) | u64::from(high) << 32, Ordering::Release);
        point(At::Published);
    }

    /// Empties the slot before the VI's next generation.
    pub fn clear(&self) {
        self.head.store(0, Ordering::Relaxed);
    }
}

/// Returns true if entry `n`'s slot has tag `tag` until entry `n` is published. This is the tag of the entry one
/// lap earlier, or 0 in the first lap. If the tag is neither this one nor that of entry `n`, the slot is corrupt.
#[inline]
pub(crate) fn is_before(n: u32, tag: u32) -> bool {
    tag == n.wrapping_add(1).wrapping_sub(SLOTS) || tag == 0 && n < SLOTS
}

/// The credit that the reader of a direction gives to the writer. Only the reader stores to these words. The writer
/// loads them only after it has used up the credit that it knows of.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Credit {
    /// Number of the first entry that the writer may not send yet. The writer may send entries with lower numbers
    /// (modulo 2^32).
    posted: AtomicU32,
    /// Number of receives that the program has posted since the VI's connection, on a native VI. A message of several
    /// entries takes one receive.
    receives: AtomicU32,
    /// Pool position up to which the reader has consumed messages.
    released: AtomicU64,
}

impl Credit {
    /// Returns a `Credit` of zeros.
    #[cfg(loom)]
    pub fn new() -> Credit {
        Credit {
            posted: AtomicU32::new(0),
            receives: AtomicU32::new(0),
            released: AtomicU64::new(0),
        }
    }

    /// Returns the number of the first entry that the writer may not send yet.
    #[inline]
    pub fn posted(&self) -> u32 {
        // SYNC: pairs with the Release store in `post`. The reader stores after its loads from the freed slots, so
        // the writer cannot change what these loads return.
        self.posted.load(Ordering::Acquire)
    }

    /// Publishes the number of the first entry that the writer may not send yet.
    #[inline]
    pub fn post(&self, posted: u32) {
        self.posted.store(posted, Ordering::Release);
    }

    /// Returns the number of receives that the program has posted.
    #[inline]
    pub fn receives(&self) -> u32 {
        self.receives.load(Ordering::Acquire)
    }

    /// Publishes the number of receives that the program has posted.
    #[inline]
    pub fn post_receives(&self, receives: u32) {
        self.receives.store(receives, Ordering::Release);
    }

    /// Returns the pool position up to which the reader has consumed messages.
    #[inline]
    pub fn released(&self) -> u64 {
        // SYNC: pairs with the Release store in `release`. The reader stores after its copies from the freed range,
        // so the writer cannot change what was copied.
        self.released.load(Ordering::Acquire)
    }

    /// Publishes the pool position up to which the reader has consumed messages.
    #[inline]
    pub fn release(&self, position: u64) {
        self.released.store(position, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Tries the tags of entry `n`'s slot in several laps, for numbers near the wrap-around and far from it.
    /// Exactly one tag must count as entry `n`, and exactly one as the entry of the lap before.
    #[test]
    fn tags_distinguish_entries_that_wrap() {
        for n in (0..4 * SLOTS).map(|n| n.wrapping_sub(2 * SLOTS)) {
            for lap in -3..=3i32 {
                let other = n.wrapping_add_signed(lap * SLOTS as i32);
                let slot = Slot {
                    head: AtomicU64::new(u64::from(other.wrapping_add(1))),
                    more: AtomicU64::new(0),
                    words: Default::default(),
                };
                assert_eq!(slot.holds(n), lap == 0, "{n}, {lap}");
                assert_eq!(slot.read(n).is_some(), lap == 0, "{n}, {lap}");
                // In the first lap slots are empty (tag 0). Entry 2^32 - 1 has tag 0, too.
                let empty = n < SLOTS && other == u32::MAX;
                assert_eq!(slot.awaits(n), lap == -1 || empty, "{n}, {lap}");
            }
        }
    }
}
