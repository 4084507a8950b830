//! The queue of one direction of a VI: entries in shared memory, one writer, one reader.
//!
//! Entry `n` (counted from 0 for the life of the VI) lies in slot `n % SLOTS`. The writer fills the
//! slot and stores its tag, `n + 1`, last; the reader takes the slot when the tag is the one it
//! expects. So the message and the news of it are the same cache line, and no other line is
//! touched. A slot is free again when the reader has posted a receive for it: [`Credit`] counts
//! posted receives, and it is read only when the writer's last knowledge of it is used up.

mod words;

use crate::sync::{At, AtomicU32, AtomicU64, Ordering, point};
use sovia_signal::access::{self, BadAddress};
use sovia_sys::{UserSlice, UserSliceMut};
use words::{store, store_checked, unpack, unpack_checked};

/// Entries of a ring; a power of two.
pub const SLOTS: u32 = 64;
/// Bytes that travel inside an entry.
pub const INLINE: usize = 8 * WORDS;
const WORDS: usize = 14;
/// Of the [`INLINE`] bytes, how many lie in the entry's first cache line.
const FIRST_LINE: usize = 48;
const POOLED: u32 = 1 << 31;
const LEN_MAX: u32 = (1 << 24) - 1;

/// One queue entry: two cache lines, of which a message of up to 48 bytes touches the first only.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot {
    /// Low half: the tag. High half: length, and whether the bytes are in the pool.
    head: AtomicU64,
    /// Low half: immediate data. High half: the pool offset in bytes, if pooled.
    more: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// What an entry says of its message, loaded once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The 32 bits that travel beside the message.
    pub immediate: u32,
    /// The message's length in bytes.
    pub len: u32,
    /// Where in the pool it begins; `None` if it is in the entry.
    pub pool_offset: Option<u32>,
}

impl Slot {
    /// An empty slot.
    #[cfg(loom)]
    pub fn new() -> Slot {
        Slot {
            head: AtomicU64::new(0),
            more: AtomicU64::new(0),
            words: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Whether entry `n` is here.
    #[inline]
    pub fn holds(&self, n: u32) -> bool {
        self.head.load(Ordering::Acquire) as u32 == n.wrapping_add(1)
    }

    /// Whether the slot, as its writer left it, still awaits entry `n`.
    #[inline]
    pub fn awaits(&self, n: u32) -> bool {
        is_before(n, self.head.load(Ordering::Relaxed) as u32)
    }

    /// Reads entry `n`'s header if it is here.
    #[inline]
    pub fn read(&self, n: u32) -> Option<Entry> {
        self.read_or(n).ok()
    }

    /// Likewise; if it is not here, the tag that is.
    #[inline]
    pub(crate) fn read_or(&self, n: u32) -> Result<Entry, u32> {
        // SYNC: pairs with the Release store in `publish`; what was written before it is seen.
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

    /// Copies bytes `from..from + out.len()` of an inline message out.
    /// What lies beyond [`INLINE`] reads as nothing; returns how many bytes were copied.
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

    /// Copies the bytes of an inline message in. At most [`INLINE`] bytes in all.
    ///
    /// The second line's first: the reader looks at the first line all the time, and what is stored
    /// there should be one piece with the tag, or the line goes back and forth twice.
    #[inline]
    pub fn copy_in(&self, bytes: &[u8]) {
        if let Some((first, second)) = bytes.split_at_checked(FIRST_LINE) {
            store(&self.words[FIRST_LINE / 8..], second);
            store(&self.words[..FIRST_LINE / 8], first);
        } else {
            store(&self.words, bytes);
        }
    }

    /// Like [`Slot::copy_in`], from the program's memory.
    ///
    /// # Errors
    /// [`BadAddress`] if that is not all there; then nothing may be published.
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

    /// Like [`Slot::copy_out`], to the program's memory.
    ///
    /// # Errors
    /// [`BadAddress`] if that is not all there.
    #[inline]
    pub fn copy_out_checked(&self, from: usize, out: UserSliceMut<'_>) -> Result<(), BadAddress> {
        let mut fault = access::Fault::none();
        let n = out.len().min(INLINE.saturating_sub(from));
        let out = out.as_mut_ptr();
        // SAFETY (all accesses below): within the first `n` bytes of the program's buffer.
        if from.is_multiple_of(8) {
            let mut at = 0;
            let mut words = self.words.get(from / 8..).unwrap_or(&[]).iter();
            while n - at >= 8 {
                let Some(word) = words.next() else { return fault.check() };
                let word = u64::from_le(word.load(Ordering::Relaxed));
                // SAFETY: as above.
                unsafe { access::store_word(out.wrapping_add(at).cast(), word, &mut fault) };
                at += 8;
            }
            if let (true, Some(word)) = (at < n, words.next()) {
                // SAFETY: as above.
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
                // SAFETY: as above.
                unsafe { access::store_word(out.wrapping_add(i), byte, &mut fault) };
            }
        }
        fault.check()
    }

    /// Makes entry `n` visible to the reader.
    #[inline]
    pub fn publish(&self, n: u32, entry: Entry) {
        let mut high = entry.len & LEN_MAX;
        if entry.pool_offset.is_some() {
            high |= POOLED;
        }
        let offset = entry.pool_offset.unwrap_or(0);
        self.more.store(u64::from(entry.immediate) | u64::from(offset) << 32, Ordering::Relaxed);
        point(At::Publishing);
        // SYNC: the reader's Acquire load of the tag sees all that was stored above.
        self.head.store(u64::from(n.wrapping_add(1)) | u64::from(high) << 32, Ordering::Release);
        point(At::Published);
    }

    /// Empties the slot, for a VI's next life.
    pub fn clear(&self) {
        self.head.store(0, Ordering::Relaxed);
    }
}

/// Whether a slot with that tag holds what goes before entry `n`: the entry of the lap before, or
/// nothing in the first lap. No honest writer leaves anything else to a reader.
#[inline]
pub(crate) fn is_before(n: u32, tag: u32) -> bool {
    tag == n.wrapping_add(1).wrapping_sub(SLOTS) || tag == 0 && n < SLOTS
}

/// What the reader of a direction gives back to its writer. Written by the reader, and by the
/// writer only read, when it has to.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Credit {
    /// Entries that may be sent since the VI's beginning: entry `n` once this is above `n`.
    posted: AtomicU32,
    /// Receives that the program has posted since the VI's beginning, where it is the program that
    /// posts them. A message of several entries takes one.
    receives: AtomicU32,
    /// Pool position up to which messages have been consumed.
    released: AtomicU64,
}

impl Credit {
    /// No credit.
    #[cfg(loom)]
    pub fn new() -> Credit {
        Credit {
            posted: AtomicU32::new(0),
            receives: AtomicU32::new(0),
            released: AtomicU64::new(0),
        }
    }

    /// Receives posted so far.
    #[inline]
    pub fn posted(&self) -> u32 {
        // SYNC: pairs with `post`: the reader is done with the slots that this covers.
        self.posted.load(Ordering::Acquire)
    }

    /// Publishes the number of receives posted so far.
    #[inline]
    pub fn post(&self, posted: u32) {
        self.posted.store(posted, Ordering::Release);
    }

    /// Receives that the program has posted so far.
    #[inline]
    pub fn receives(&self) -> u32 {
        self.receives.load(Ordering::Acquire)
    }

    /// Publishes the number of receives that the program has posted so far.
    #[inline]
    pub fn post_receives(&self, receives: u32) {
        self.receives.store(receives, Ordering::Release);
    }

    /// Pool position up to which the reader has given bytes back.
    #[inline]
    pub fn released(&self) -> u64 {
        // SYNC: pairs with `release`: the reader's copies out of the range are over.
        self.released.load(Ordering::Acquire)
    }

    /// Publishes the pool position up to which messages have been consumed.
    #[inline]
    pub fn release(&self, position: u64) {
        self.released.store(position, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A slot's tags in their order, far from the wrap and over it: of all tags that a slot can have, a reader takes
    /// one for the entry that it expects, and one for what goes before it.
    #[test]
    fn tags_tell_entries_apart_where_they_wrap() {
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
                // In the first lap slots are empty. After 2^32 entries that of number 2^32 - 1 looks the same.
                let empty = n < SLOTS && other == u32::MAX;
                assert_eq!(slot.awaits(n), lap == -1 || empty, "{n}, {lap}");
            }
        }
    }
}
