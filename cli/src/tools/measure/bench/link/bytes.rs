//! The hardware's limit for streams: a ring of bytes, with one copy in and one copy out. The copies are in steps, so
//! that both run at the same time within the cache.

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Link, spin};

/// Size of a ring in bytes. It fits into every second-level cache.
const RING_BYTES: usize = 256 << 10;
/// Number of bytes that one end copies before it publishes its position.
const STEP_BYTES: usize = 16 << 10;

/// Number of bytes since the start, in a cache line of its own.
#[repr(C, align(128))]
struct Position(AtomicU64);

/// A ring in shared memory, from one sender to one receiver.
#[repr(C)]
pub(in crate::measure::bench) struct ByteQueue {
    sent: Position,
    received: Position,
    data: UnsafeCell<[u8; RING_BYTES]>,
}

impl ByteQueue {
    /// Returns the address of the byte at `position`.
    fn at(&self, position: u64) -> *mut u8 {
        self.data.get().cast::<u8>().wrapping_add(position as usize % RING_BYTES)
    }
}

/// Returns the number of bytes from `position` to the end of the ring.
fn before_wrap(position: u64) -> usize {
    RING_BYTES - position as usize % RING_BYTES
}

/// One end of a pair of rings.
pub(in crate::measure::bench) struct Bytes<'a> {
    to: &'a ByteQueue,
    from: &'a ByteQueue,
    sent: u64,
    /// Last value read from `to.received`.
    taken: u64,
    received: u64,
    /// Last value read from `from.sent`.
    given: u64,
}

impl<'a> Bytes<'a> {
    /// Makes an end of two new rings.
    pub(in crate::measure::bench) fn new((to, from): (&'a ByteQueue, &'a ByteQueue)) -> Self {
        Self { to, from, sent: 0, taken: 0, received: 0, given: 0 }
    }

    fn look(&mut self) -> usize {
        self.given = self.from.sent.0.load(Ordering::Acquire);
        (self.given - self.received) as usize
    }
}

impl Link for Bytes<'_> {
    fn send(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            if self.sent - self.taken == RING_BYTES as u64 {
                let before = self.taken;
                self.taken = spin(|| {
                    let taken = self.to.received.0.load(Ordering::Acquire);
                    (taken != before).then_some(taken)
                });
            }
            let free = RING_BYTES - (self.sent - self.taken) as usize;
            let len = data.len().min(free).min(STEP_BYTES).min(before_wrap(self.sent));
            // SAFETY: the `len` bytes are inside the ring and free. The receiver's position says that it has copied
            // them out, and the receiver does not read them again before this end's position has passed them.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.to.at(self.sent), len) };
            self.sent += len as u64;
            self.to.sent.0.store(self.sent, Ordering::Release);
            data = &data[len..];
        }
        Ok(())
    }

    fn receive(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < data.len() {
            let mut there = (self.given - self.received) as usize;
            if there == 0 {
                there = self.look();
            }
            if there == 0 {
                if done > 0 {
                    break;
                }
                there = spin(|| Some(self.look()).filter(|&there| there > 0));
            }
            let len =
                (data.len() - done).min(there).min(STEP_BYTES).min(before_wrap(self.received));
            // SAFETY: the `len` bytes are inside the ring and full, as the sender's position says. The sender does not
            // write them again before this end's position has passed them.
            unsafe {
                let to = data[done..done + len].as_mut_ptr();
                std::ptr::copy_nonoverlapping(self.from.at(self.received), to, len);
            }
            self.received += len as u64;
            self.from.received.0.store(self.received, Ordering::Release);
            done += len;
        }
        Ok(done)
    }
}
