//! The memory that a program shares with its agent: a ring of frames in each direction.
//!
//! Frame `n`, counted from 0 since the ring's creation, lies in slot `n % count`. The producer fills the slot and
//! stores the slot's head last: the stamp `n + 1`, and the frame's length. The consumer takes a slot when its stamp has
//! the expected value. The consumer counts the slots that it has taken in its own word. The producer reads this word
//! only when it knows no free slot.
//!
//! **Trust.** The agent does not trust the program. It reads everything once, into its own memory, with loads and
//! stores that are atomic for each word ([`Producer::put`], [`Consumer::peek`]). The agent keeps its own counters, and
//! reports an impossible value from the program as [`Broken`]. The program trusts its agent, because the agent carries
//! all its frames and could change them. So the program writes and reads frames in place.
//!
//! **Sleep.** A consumer that is about to sleep sets a word, then looks at the ring once more. After each batch a
//! producer looks at this word, clears it and wakes the consumer. Each side has a full fence between its two steps, so
//! at least one side sees the other side's store.

use crate::Address;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use sovia_sys::mapping::{is_sealed_memory, sealed_memory};
use sovia_sys::{Errno, Fd, Mapping, Result};
use std::sync::Arc;

/// Bytes before a frame in its slot: the head and the address.
const HEAD: usize = 32;
/// Slots are aligned to cache lines.
const LINE: usize = 64;
/// Bytes before the slots, for the words of the two rings.
const WORDS: usize = 4096;
/// Distance between words of different processes. They share neither a cache line nor the adjacent line that some
/// processors prefetch.
const APART: usize = 128;
/// Approximate size of a ring's slots in bytes.
const RING: usize = 2 << 20;
/// Number of slots of a ring: minimum and maximum. Always a power of two.
const COUNT_MIN: u32 = 16;
const COUNT_MAX: u32 = 1024;
/// Length of the longest frame that a ring supports.
pub const FRAME_MAX: u32 = 1 << 16;

/// The other process has written an impossible value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shared memory is corrupt: the other process wrote an invalid value")]
pub struct Broken;

/// The layout of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    frame_max: u32,
    count: u32,
}

impl Geometry {
    /// Returns a layout for frames of up to `frame_max` bytes; `None` if `frame_max` is too large.
    pub fn of(frame_max: usize) -> Option<Geometry> {
        let frame_max = u32::try_from(frame_max).ok().filter(|&bytes| bytes <= FRAME_MAX)?;
        let slots = (RING / slot_bytes(frame_max)).max(1) as u32;
        let count = (slots.next_power_of_two() / 2).clamp(COUNT_MIN, COUNT_MAX);
        Some(Geometry { frame_max, count })
    }

    /// Checks a layout that another process has sent; `None` if it is invalid.
    pub fn told(frame_max: u32, count: u32) -> Option<Geometry> {
        let is_legal = (1..=FRAME_MAX).contains(&frame_max)
            && (COUNT_MIN..=COUNT_MAX).contains(&count)
            && count.is_power_of_two();
        is_legal.then_some(Geometry { frame_max, count })
    }

    /// Returns the length of the longest frame in bytes.
    pub fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Returns the number of slots of each ring.
    pub fn count(&self) -> u32 {
        self.count
    }

    fn ring_bytes(&self) -> usize {
        slot_bytes(self.frame_max) * self.count as usize
    }

    fn bytes(&self) -> usize {
        (WORDS + 2 * self.ring_bytes()).next_multiple_of(4096)
    }
}

fn slot_bytes(frame_max: u32) -> usize {
    (HEAD + frame_max as usize).next_multiple_of(LINE)
}

/// The shared memory.
#[derive(Debug)]
struct Memory {
    mapping: Mapping,
    geometry: Geometry,
}

/// One of the two rings in the memory.
#[derive(Debug)]
struct Ring {
    memory: Arc<Memory>,
    /// 0 for frames to the agent, 1 for frames to the program.
    which: usize,
}

impl Ring {
    fn word(&self, number: usize) -> &AtomicU32 {
        let at = (2 * self.which + number) * APART;
        const { assert!(4 * APART <= WORDS) };
        // SAFETY: the word is aligned and lies before the slots. Both processes access it only atomically.
        unsafe { AtomicU32::from_ptr(self.memory.mapping.base().add(at).cast()) }
    }

    /// Returns the word with the number of frames that the consumer has taken.
    fn taken(&self) -> &AtomicU32 {
        self.word(0)
    }

    /// Returns the word that is not zero while the consumer sleeps.
    fn sleeps(&self) -> &AtomicU32 {
        self.word(1)
    }

    fn geometry(&self) -> Geometry {
        self.memory.geometry
    }

    /// Returns the address of a frame's slot.
    fn slot(&self, frame: u32) -> *mut u8 {
        let Geometry { frame_max, count } = self.geometry();
        let number = (frame & (count - 1)) as usize;
        let at = WORDS + self.which * self.geometry().ring_bytes() + number * slot_bytes(frame_max);
        // SAFETY: the number is less than the count, and the mapping holds two rings with this number of slots after
        // the words.
        unsafe { self.memory.mapping.base().add(at) }
    }

    /// Returns a word of a slot: the head, three words of the address, then the words of the frame.
    fn slot_word(&self, slot: *mut u8, number: usize) -> &AtomicU64 {
        debug_assert!(8 * number < slot_bytes(self.geometry().frame_max));
        // SAFETY: callers pass only words of the slot, which begins at a multiple of 64 and lies in the mapping. The
        // other process may write these bytes at any time. Atomic access to one word is sound nevertheless.
        unsafe { AtomicU64::from_ptr(slot.cast::<u64>().add(number)) }
    }
}

/// Bytes of a word.
const WORD: usize = 8;

/// The end that puts frames into a ring.
#[derive(Debug)]
pub struct Producer {
    ring: Ring,
    /// Number of the next frame.
    next: u32,
    /// Number of frames taken, as of the last look.
    taken: u32,
}

impl Producer {
    /// Returns true if at least `slots` slots are free.
    ///
    /// # Errors
    /// Returns [`Broken`] if the consumer claims to have taken more frames than it was given.
    pub fn has_room(&mut self, slots: u32) -> core::result::Result<bool, Broken> {
        let count = self.ring.geometry().count;
        let is_free = |used: u32| used + slots <= count;
        if is_free(self.next.wrapping_sub(self.taken)) {
            return Ok(true);
        }
        // SYNC: pairs with the Release store in `Consumer::advance`. The consumer has finished reading the slots, so
        // this end may write them again.
        let taken = self.ring.taken().load(Ordering::Acquire);
        if taken.wrapping_sub(self.taken) > self.next.wrapping_sub(self.taken) {
            return Err(Broken);
        }
        self.taken = taken;
        Ok(is_free(self.next.wrapping_sub(taken)))
    }

    /// Puts a frame into the ring. Returns false if the ring is full, or the frame is too long.
    ///
    /// # Errors
    /// Returns the errors of [`Producer::has_room`].
    pub fn put(&mut self, address: &Address, frame: &[u8]) -> core::result::Result<bool, Broken> {
        if frame.len() > self.ring.geometry().frame_max as usize || !self.has_room(1)? {
            return Ok(false);
        }
        let slot = self.ring.slot(self.next);
        let store = |number, word| {
            self.ring.slot_word(slot, number).store(word, Ordering::Relaxed);
        };
        let (words, rest) = frame.as_chunks::<WORD>();
        let mut number = HEAD / WORD;
        for word in words {
            store(number, u64::from_ne_bytes(*word));
            number += 1;
        }
        if !rest.is_empty() {
            let mut word = [0; WORD];
            word[..rest.len()].copy_from_slice(rest);
            store(number, u64::from_ne_bytes(word));
        }
        self.hand_over(slot, address, frame.len());
        Ok(true)
    }

    /// Lends the memory of the next frame in its slot, for a program that trusts its consumer. `None` if no slot is
    /// free, or if the consumer is [`Broken`].
    pub(super) fn slot(&mut self) -> Option<&mut [u8]> {
        if self.has_room(1) != Ok(true) {
            return None;
        }
        let (slot, len) = (self.ring.slot(self.next), self.ring.geometry().frame_max as usize);
        // SAFETY: the bytes lie in the slot. The trusted agent has taken the slot's previous frame, so the slot belongs
        // to this end until `commit`. The borrow of the producer lasts as long as the borrow of the bytes.
        Some(unsafe { core::slice::from_raw_parts_mut(slot.add(HEAD), len) })
    }

    /// Publishes the first `len` bytes of the memory that [`Producer::slot`] has just lent. Returns false if no slot is
    /// free.
    pub(super) fn commit(&mut self, address: &Address, len: usize) -> bool {
        let fits = len <= self.ring.geometry().frame_max as usize;
        if !fits || self.has_room(1) != Ok(true) {
            return false;
        }
        self.hand_over(self.ring.slot(self.next), address, len);
        true
    }

    fn hand_over(&mut self, slot: *mut u8, address: &Address, len: usize) {
        for (n, word) in address.words().into_iter().enumerate() {
            self.ring.slot_word(slot, 1 + n).store(word, Ordering::Relaxed);
        }
        self.next = self.next.wrapping_add(1);
        let head = u64::from(self.next) | (len as u64) << 32;
        // SYNC: pairs with the Acquire load in `Consumer::head`. The consumer sees the frame and its address when it
        // sees the stamp.
        self.ring.slot_word(slot, 0).store(head, Ordering::Release);
    }

    /// Returns true if the consumer sleeps and must be woken. Call it after putting frames into the ring.
    pub fn is_to_ring(&self) -> bool {
        // SYNC: orders the frames' stamps before the load. Pairs with the fence in `Consumer::announce_sleep`.
        fence(Ordering::SeqCst);
        let sleeps = self.ring.sleeps();
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }
}

/// The end that takes frames from a ring.
#[derive(Debug)]
pub struct Consumer {
    ring: Ring,
    /// Number of the next frame.
    next: u32,
}

impl Consumer {
    /// Returns slot, length and address of the next frame, if it has arrived.
    fn head(&self) -> core::result::Result<Option<(*mut u8, usize, Address)>, Broken> {
        let slot = self.ring.slot(self.next);
        // SYNC: pairs with the Release store in `Producer::hand_over`. This end sees the frame when it sees the stamp.
        let head = self.ring.slot_word(slot, 0).load(Ordering::Acquire);
        if head as u32 != self.next.wrapping_add(1) {
            return Ok(None);
        }
        let len = (head >> 32) as usize;
        let words = [1, 2, 3].map(|n| self.ring.slot_word(slot, n).load(Ordering::Relaxed));
        match Address::of_words(words) {
            Some(address) if len <= self.ring.geometry().frame_max as usize => {
                Ok(Some((slot, len, address)))
            }
            _ => Err(Broken),
        }
    }

    /// Returns true if no frame has arrived. Returns false if the next slot is [`Broken`].
    pub fn is_empty(&self) -> bool {
        matches!(self.head(), Ok(None))
    }

    /// Copies the next frame, which stays in the ring, and returns its address; `None` if no frame has arrived.
    ///
    /// # Errors
    /// Returns [`Broken`] if length or address of the frame is impossible.
    pub fn peek(&self, frame: &mut Vec<u8>) -> core::result::Result<Option<Address>, Broken> {
        let Some((slot, len, address)) = self.head()? else { return Ok(None) };
        frame.clear();
        frame.resize(len.next_multiple_of(WORD), 0);
        let (words, _) = frame.as_chunks_mut::<WORD>();
        for (n, word) in words.iter_mut().enumerate() {
            let of = self.ring.slot_word(slot, HEAD / WORD + n);
            *word = of.load(Ordering::Relaxed).to_ne_bytes();
        }
        frame.truncate(len);
        Ok(Some(address))
    }

    /// Returns the slot of the next frame to the producer. The frame must have arrived.
    pub fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
        // SYNC: pairs with the Acquire load in `Producer::has_room`. This end has read the frame before the producer
        // writes the slot again.
        self.ring.taken().store(self.next, Ordering::Release);
    }

    /// Lends the next frame in its slot to `take`, for a program that trusts its producer. Returns true if a frame had
    /// arrived.
    ///
    /// # Errors
    /// Returns the errors of [`Consumer::peek`].
    pub(super) fn lend(
        &mut self,
        take: impl FnOnce(&Address, &[u8]),
    ) -> core::result::Result<bool, Broken> {
        let Some((slot, len, address)) = self.head()? else { return Ok(false) };
        // SAFETY: `head` has checked that the bytes lie in the slot. The trusted agent writes to the slot only after
        // `advance`.
        take(&address, unsafe { core::slice::from_raw_parts(slot.add(HEAD), len) });
        self.advance();
        Ok(true)
    }

    /// Announces that this end is about to sleep, so that the producer wakes it for the next frame. Returns false if a
    /// frame has already arrived.
    pub fn announce_sleep(&self) -> bool {
        self.ring.sleeps().store(1, Ordering::Relaxed);
        // SYNC: orders the announcement before the look at the ring. Pairs with the fence in `Producer::is_to_ring`.
        fence(Ordering::SeqCst);
        self.is_empty()
    }

    /// Withdraws the announcement: this end polls again.
    pub fn is_awake(&self) {
        self.ring.sleeps().store(0, Ordering::Relaxed);
    }
}

/// Creates the memory and returns the agent's ends, and the memory as a file: for frames from the program, for frames
/// to the program.
///
/// # Errors
/// Returns the kernel's errors.
pub fn make(geometry: Geometry) -> Result<(Consumer, Producer, Fd)> {
    let file = sealed_memory(c"sovia-port", geometry.bytes() as u64)?;
    let [from, to] = ends(&file, geometry)?;
    Ok((consumer(from), producer(to), file))
}

/// Returns the program's ends of the agent's memory: for frames to the agent, for frames from the agent.
///
/// # Errors
/// Returns `EINVAL` if the file is no such memory, or the kernel's errors.
pub(super) fn attach(file: &Fd, geometry: Geometry) -> Result<(Producer, Consumer)> {
    if !is_sealed_memory(file.raw(), geometry.bytes() as u64) {
        return Err(Errno::EINVAL);
    }
    let [from, to] = ends(file, geometry)?;
    Ok((producer(from), consumer(to)))
}

fn ends(file: &Fd, geometry: Geometry) -> Result<[Ring; 2]> {
    let mapping = Mapping::shared(file.raw(), geometry.bytes())?;
    let memory = Arc::new(Memory { mapping, geometry });
    Ok([0, 1].map(|which| Ring { memory: memory.clone(), which }))
}

fn producer(ring: Ring) -> Producer {
    Producer { ring, next: 0, taken: 0 }
}

fn consumer(ring: Ring) -> Consumer {
    Consumer { ring, next: 0 }
}

#[cfg(test)]
mod tests;
