//! The memory that a program shares with its agent: a ring of frames in each direction.
//!
//! Frame `n` (counted from 0 for the life of the ring) lies in slot `n % count`. The producer fills the slot and stores the
//! slot's head last: the stamp `n + 1`, and the frame's length. The consumer takes the slot when its stamp is the one that it
//! expects, and counts the slots that it has taken in a word of its own, which the producer reads only when the slots that it
//! knows to be free are used up.
//!
//! **Which end believes what.** The agent believes nothing. What it reads, it reads once, into memory of its own, by loads and
//! stores that are atomic word by word ([`Producer::put`], [`Consumer::peek`]); it has its own counters, and a word of the
//! program's that cannot be true is [`Broken`]. The program believes its agent, which carries its frames and could change
//! every one of them: it writes and reads frames where they lie.
//!
//! **Sleep.** A consumer that is about to sleep says so in a word, and looks once more; a producer looks at that word after each
//! batch, takes the announcement back and rings. Between the two steps of either lies a full fence, so that one of them sees the
//! other's.

use crate::Address;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use sovia_sys::mapping::{is_sealed_memory, sealed_memory};
use sovia_sys::{Errno, Fd, Mapping, Result};
use std::sync::Arc;

/// Bytes before a frame in its slot: the head, and the address.
const HEAD: usize = 32;
/// Slots begin at cache lines.
const LINE: usize = 64;
/// Bytes before the slots: the words of the two rings.
const WORDS: usize = 4096;
/// Bytes between words that different processes write, so that they share neither a line nor the one that is fetched with it.
const APART: usize = 128;
/// Bytes of a ring's slots, about.
const RING: usize = 2 << 20;
/// Slots of a ring: powers of two.
const COUNT_MIN: u32 = 16;
const COUNT_MAX: u32 = 1024;
/// The longest frame that a ring can be for.
pub const FRAME_MAX: u32 = 1 << 16;

/// The other process has written what cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shared memory is corrupt: the other process wrote an invalid value")]
pub struct Broken;

/// How the memory is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    frame_max: u32,
    count: u32,
}

impl Geometry {
    /// Rings for frames of up to `frame_max` bytes; `None` for longer ones than there are.
    pub fn of(frame_max: usize) -> Option<Geometry> {
        let frame_max = u32::try_from(frame_max).ok().filter(|&bytes| bytes <= FRAME_MAX)?;
        let slots = (RING / slot_bytes(frame_max)).max(1) as u32;
        let count = (slots.next_power_of_two() / 2).clamp(COUNT_MIN, COUNT_MAX);
        Some(Geometry { frame_max, count })
    }

    /// What another process says of its rings; `None` if there are no such rings.
    pub fn told(frame_max: u32, count: u32) -> Option<Geometry> {
        let is_legal = (1..=FRAME_MAX).contains(&frame_max)
            && (COUNT_MIN..=COUNT_MAX).contains(&count)
            && count.is_power_of_two();
        is_legal.then_some(Geometry { frame_max, count })
    }

    /// Bytes of the longest frame.
    pub fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Slots of each ring.
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

/// The memory.
#[derive(Debug)]
struct Memory {
    mapping: Mapping,
    geometry: Geometry,
}

/// One ring of it.
#[derive(Debug)]
struct Ring {
    memory: Arc<Memory>,
    /// 0 for frames to the agent, 1 for those to the program.
    which: usize,
}

impl Ring {
    fn word(&self, number: usize) -> &AtomicU32 {
        let at = (2 * self.which + number) * APART;
        const { assert!(4 * APART <= WORDS) };
        // SAFETY: an aligned word before the slots, which both processes use as an atomic one.
        unsafe { AtomicU32::from_ptr(self.memory.mapping.base().add(at).cast()) }
    }

    /// Frames that the consumer has taken.
    fn taken(&self) -> &AtomicU32 {
        self.word(0)
    }

    /// Not zero while the consumer sleeps.
    fn sleeps(&self) -> &AtomicU32 {
        self.word(1)
    }

    fn geometry(&self) -> Geometry {
        self.memory.geometry
    }

    /// The slot of a frame.
    fn slot(&self, frame: u32) -> *mut u8 {
        let Geometry { frame_max, count } = self.geometry();
        let number = (frame & (count - 1)) as usize;
        let at = WORDS + self.which * self.geometry().ring_bytes() + number * slot_bytes(frame_max);
        // SAFETY: the number is below the count, and the mapping has two rings of that many slots behind the words.
        unsafe { self.memory.mapping.base().add(at) }
    }

    /// A word of a slot: the head, the address's three, and then the frame's.
    fn slot_word(&self, slot: *mut u8, number: usize) -> &AtomicU64 {
        debug_assert!(8 * number < slot_bytes(self.geometry().frame_max));
        // SAFETY: callers name words of the slot alone, which begins at a multiple of 64 and lies in the mapping. The other process uses
        // these bytes as it likes; an atomic load or store of one word is sound whatever it does.
        unsafe { AtomicU64::from_ptr(slot.cast::<u64>().add(number)) }
    }
}

/// Bytes of a word.
const WORD: usize = 8;

/// The end that puts frames in a ring.
#[derive(Debug)]
pub struct Producer {
    ring: Ring,
    /// The next frame's number.
    next: u32,
    /// Frames taken, when that was last looked at.
    taken: u32,
}

impl Producer {
    /// Whether that many slots are free.
    ///
    /// # Errors
    /// [`Broken`]: the consumer says that it has taken what it had not been given.
    pub fn has_room(&mut self, slots: u32) -> core::result::Result<bool, Broken> {
        let count = self.ring.geometry().count;
        let is_free = |used: u32| used + slots <= count;
        if is_free(self.next.wrapping_sub(self.taken)) {
            return Ok(true);
        }
        // SYNC: pairs with the consumer's release of slots that it has read: they may be written again.
        let taken = self.ring.taken().load(Ordering::Acquire);
        if taken.wrapping_sub(self.taken) > self.next.wrapping_sub(self.taken) {
            return Err(Broken);
        }
        self.taken = taken;
        Ok(is_free(self.next.wrapping_sub(taken)))
    }

    /// Puts a frame in the ring; false if it has no room, or the frame is too long.
    ///
    /// # Errors
    /// As [`Producer::has_room`].
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

    /// Room for the next frame where it is to lie, for an end that believes its consumer. `None` while there is none, or where the
    /// consumer is [`Broken`].
    pub(super) fn slot(&mut self) -> Option<&mut [u8]> {
        if self.has_room(1) != Ok(true) {
            return None;
        }
        let (slot, len) = (self.ring.slot(self.next), self.ring.geometry().frame_max as usize);
        // SAFETY: the bytes lie in the slot. It is this end's until it is handed over: the agent, which is believed, has taken what
        // was there, and this producer is borrowed for as long as the bytes are.
        Some(unsafe { core::slice::from_raw_parts_mut(slot.add(HEAD), len) })
    }

    /// Hands over the first `len` bytes of the room that [`Producer::slot`] has just lent; false if there is none.
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
        // SYNC: the frame and its address are there before the consumer sees the stamp.
        self.ring.slot_word(slot, 0).store(head, Ordering::Release);
    }

    /// Whether the consumer sleeps and is to be rung, since frames have been put in the ring.
    pub fn is_to_ring(&self) -> bool {
        // SYNC: the frames' stamps before the look; the other fence is in `Consumer::announce_sleep`.
        fence(Ordering::SeqCst);
        let sleeps = self.ring.sleeps();
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }
}

/// The end that takes frames from a ring.
#[derive(Debug)]
pub struct Consumer {
    ring: Ring,
    /// The next frame's number.
    next: u32,
}

impl Consumer {
    /// The next frame's length, if it is there, and its address.
    fn head(&self) -> core::result::Result<Option<(*mut u8, usize, Address)>, Broken> {
        let slot = self.ring.slot(self.next);
        // SYNC: pairs with the release in `Producer::hand_over`: the frame is there.
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

    /// Whether no frame is there.
    pub fn is_empty(&self) -> bool {
        matches!(self.head(), Ok(None))
    }

    /// Copies the next frame, which stays in the ring, and gives its address; `None` if none is there.
    ///
    /// # Errors
    /// [`Broken`]: it says to be longer than frames can be, or its address is none.
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

    /// Gives the next frame's slot back, which is there.
    pub fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
        // SYNC: the frame has been read before the producer writes to its slot.
        self.ring.taken().store(self.next, Ordering::Release);
    }

    /// Lends the next frame where it lies to `take`, for an end that believes its producer; whether there is one.
    ///
    /// # Errors
    /// As [`Consumer::peek`].
    pub(super) fn lend(
        &mut self,
        take: impl FnOnce(&Address, &[u8]),
    ) -> core::result::Result<bool, Broken> {
        let Some((slot, len, address)) = self.head()? else { return Ok(false) };
        // SAFETY: the bytes lie in the slot, as has been checked. They stay as they are until the slot is given back: the
        // agent, which is believed, writes to it after that only.
        take(&address, unsafe { core::slice::from_raw_parts(slot.add(HEAD), len) });
        self.advance();
        Ok(true)
    }

    /// Announces that this end is about to sleep; the producer rings with the next frame. False if one is there already.
    pub fn announce_sleep(&self) -> bool {
        self.ring.sleeps().store(1, Ordering::Relaxed);
        // SYNC: the announcement before the look; the other fence is in `Producer::is_to_ring`.
        fence(Ordering::SeqCst);
        self.is_empty()
    }

    /// Takes the announcement back: this end looks by itself.
    pub fn is_awake(&self) {
        self.ring.sleeps().store(0, Ordering::Relaxed);
    }
}

/// The agent's ends of new memory, and the memory as a file: what the program sends, and what it is sent.
///
/// # Errors
/// The kernel's.
pub fn make(geometry: Geometry) -> Result<(Consumer, Producer, Fd)> {
    let file = sealed_memory(c"sovia-port", geometry.bytes() as u64)?;
    let [from, to] = ends(&file, geometry)?;
    Ok((consumer(from), producer(to), file))
}

/// The program's ends of memory that its agent has made: what it sends, and what it is sent.
///
/// # Errors
/// `EINVAL` if it is no such memory, and the kernel's.
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
