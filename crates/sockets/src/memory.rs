//! Registered memory for packets, if the settings SOVIA_REG, SOVIA_COPY or SOVIA_HYBRID require it (ICS section
//! 4.1).
//!
//! The NIC in shared memory reads a program's bytes during the call that sends them. So the NIC needs no
//! registration, and by default nothing is registered. With these settings the NIC reads only registered memory.
//! This is the program's buffer, registered for one send, or a copy of the buffer's bytes. Copies lie in buffers of
//! this process, which are registered for good.
//!
//! The tables of regions and buffers have a fixed size, and no lock. So a signal handler may send during a send
//! that it has interrupted. While a table is full, nothing is registered, and packets are sent as by default.

use crate::per_engine::{per_engine, per_engine_tables};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use sovia_signal::access;
use sovia_sync::thread;
use sovia_sys::UserSlice;

/// Number of regions that can be registered at once.
const REGIONS: usize = 64;
/// Size in bytes of one of this process's buffers. The longest packet fits.
pub(crate) const BUFFER: usize = 64 << 10;
/// Number of buffers to which sends can copy at once.
const BUFFERS: usize = 16;

/// Table entry for a region.
struct RegionEntry {
    /// Changes when the entry is taken and when it is freed. Odd while the entry is taken.
    generation: AtomicU32,
    base: AtomicUsize,
    len: AtomicUsize,
}

per_engine! {
    static TABLE: [RegionEntry; REGIONS] = [const {
        RegionEntry { generation: AtomicU32::new(0), base: AtomicUsize::new(0), len: AtomicUsize::new(0) }
    }; REGIONS];
}

/// Registration of a slice, until this value is dropped. Also serves as the slice's memory handle.
#[derive(Debug)]
pub(crate) struct Region<'b> {
    index: usize,
    generation: u32,
    bytes: PhantomData<UserSlice<'b>>,
}

/// Registers `bytes`. Returns `None` while all entries are taken.
pub(crate) fn register(bytes: UserSlice<'_>) -> Option<Region<'_>> {
    // Start threads at different entries, to avoid contention.
    let first = thread::thread_id() as usize;
    for step in 0..REGIONS {
        let index = (first + step) % REGIONS;
        let RegionEntry { generation, base, len } = &TABLE[index];
        let seen = generation.load(Ordering::Relaxed);
        let taken = seen.wrapping_add(1);
        if seen.is_multiple_of(2)
            && generation
                .compare_exchange(seen, taken, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            base.store(bytes.as_ptr().addr(), Ordering::Relaxed);
            len.store(bytes.len(), Ordering::Relaxed);
            return Some(Region { index, generation: taken, bytes: PhantomData });
        }
    }
    None
}

impl Region<'_> {
    /// Returns `bytes`, for the NIC to read, if all of them lie in the region.
    pub(crate) fn read<'a>(&self, bytes: UserSlice<'a>) -> Option<UserSlice<'a>> {
        let entry = &TABLE[self.index];
        let offset = bytes.as_ptr().addr().checked_sub(entry.base.load(Ordering::Relaxed))?;
        let within = offset.checked_add(bytes.len())? <= entry.len.load(Ordering::Relaxed);
        let live = entry.generation.load(Ordering::Relaxed) == self.generation;
        (live && within).then_some(bytes)
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        TABLE[self.index].generation.store(self.generation.wrapping_add(1), Ordering::Release);
    }
}

/// A buffer that is registered for good.
struct Buffer(UnsafeCell<[u8; BUFFER]>);

// SAFETY: only the thread whose id is in the buffer's entry of `USERS` accesses the buffer.
unsafe impl Sync for Buffer {}

per_engine! {
    /// Id of the thread that uses each buffer, or 0. The words are adjacent, because a forked child reads them all.
    static USERS: [AtomicU32; BUFFERS] = [const { AtomicU32::new(0) }; BUFFERS];
}
per_engine_tables! {
    static OWN: [Buffer; BUFFERS] = [const { Buffer(UnsafeCell::new([0; BUFFER])) }; BUFFERS];
}

/// A copy of a program's bytes in a registered buffer. Dropping this value frees the buffer.
#[derive(Debug)]
pub(crate) struct Copied {
    buffer: usize,
    len: usize,
}

/// Copies `bytes` to a registered buffer. Returns `None` if the bytes do not fit or cannot be read, or if all
/// buffers are taken.
pub(crate) fn copy(bytes: UserSlice<'_>) -> Option<Copied> {
    let me = thread::thread_id() as u32;
    for step in 0..BUFFERS {
        let buffer = (me as usize + step) % BUFFERS;
        let (user, Buffer(memory)) = (&USERS[buffer], &OWN[buffer]);
        if user.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            let copied = Copied { buffer, len: bytes.len() };
            // SAFETY: the exchange gives the buffer to this call until `copied` is dropped. No other reference to
            // the buffer's memory exists meanwhile.
            let memory = unsafe { &mut *memory.get() };
            let memory = memory.get_mut(..bytes.len())?;
            // If the bytes cannot be read, return `None`. The NIC then reports the error.
            access::read(bytes, memory).ok()?;
            return Some(copied);
        }
    }
    None
}

impl Copied {
    /// Returns the copied bytes, for the NIC to read.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer belongs to `self`, and was only written before `self` was made.
        let memory = unsafe { &*OWN[self.buffer].0.get() };
        &memory[..self.len]
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        USERS[self.buffer].store(0, Ordering::Release);
    }
}

/// Frees all entries in a forked child. Sends of the parent's other threads do not continue in the child.
pub(crate) fn forked() {
    for entry in TABLE.iter() {
        let generation = entry.generation.load(Ordering::Relaxed);
        if !generation.is_multiple_of(2) {
            entry.generation.store(generation.wrapping_add(1), Ordering::Relaxed);
        }
    }
    for user in USERS.iter() {
        if user.load(Ordering::Relaxed) != 0 {
            user.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::Range;

    #[test]
    fn what_does_not_lie_in_a_region_is_not_read_from_it() {
        let bytes = [7u8; 100];
        let bytes = |range: Range<usize>| UserSlice::from(&bytes[range]);
        let region = register(bytes(10..90)).unwrap();
        for inside in [10..90, 20..30] {
            let found = region.read(bytes(inside.clone())).map(|read| (read.as_ptr(), read.len()));
            assert_eq!(found, Some((bytes(inside.clone()).as_ptr(), inside.len())));
        }
        for outside in [9..20, 80..91, 0..100, 95..100] {
            assert!(region.read(bytes(outside)).is_none());
        }
    }

    /// Fills each table, like signal handlers that have each interrupted a send.
    #[test]
    fn when_all_places_are_taken_there_is_none() {
        let all = [1u8; 8];
        let bytes = UserSlice::from(&all);
        let held: Vec<Region<'_>> = (0..2 * REGIONS).map_while(|_| register(bytes)).collect();
        assert!(held.len() <= REGIONS && register(bytes).is_none());
        drop(held);
        assert!(register(bytes).is_some());

        let copies = (0..2 * BUFFERS as u8).map_while(|i| copy((&[i; 3]).into()));
        let held: Vec<Copied> = copies.collect();
        assert!(held.len() <= BUFFERS && copy(bytes).is_none());
        assert!(held.iter().enumerate().all(|(i, copied)| copied.bytes() == [i as u8; 3]));
        drop(held);
        assert!(copy((&[0; BUFFER + 1]).into()).is_none(), "longer than a packet can be");
        assert_eq!(copy(bytes).unwrap().bytes(), all);
    }
}
