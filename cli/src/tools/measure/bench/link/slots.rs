//! The hardware's limit for small messages: a ring of slots of one cache line each. Data and sequence number are in the
//! same line, so a message costs the transfer of one line.

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Link, spin};

/// Size of a slot's data in bytes.
const SLOT_BYTES: usize = 60;
/// Number of slots in a ring.
const SLOTS: usize = 1024;
/// Largest message for slots. A longer one is faster through [`bytes`](super::bytes).
pub(in crate::measure::bench) const MESSAGE_BYTES_MAX: usize = 4 * SLOT_BYTES;

#[repr(C, align(64))]
struct Slot {
    /// Position of the message in the slot plus 1. Positions do not repeat within a lap.
    sequence: AtomicU32,
    data: UnsafeCell<[u8; SLOT_BYTES]>,
}

/// A ring in shared memory, from one sender to one receiver.
#[repr(C, align(64))]
pub(in crate::measure::bench) struct SlotQueue {
    /// Position up to which the receiver has emptied slots. The receiver updates it now and then.
    taken: AtomicU32,
    slots: [Slot; SLOTS],
}

/// One end of a pair of rings.
pub(in crate::measure::bench) struct Slots<'a> {
    to: &'a SlotQueue,
    from: &'a SlotQueue,
    message_bytes: usize,
    sent: u32,
    /// Last value read from `to.taken`.
    taken: u32,
    received: u32,
}

impl<'a> Slots<'a> {
    /// Makes an end for messages of `message_bytes` each.
    pub(in crate::measure::bench) fn new(
        (to, from): (&'a SlotQueue, &'a SlotQueue),
        message_bytes: usize,
    ) -> Self {
        Self { to, from, message_bytes, sent: 0, taken: 0, received: 0 }
    }

    fn is_there(&self) -> bool {
        let slot = &self.from.slots[self.received as usize % SLOTS];
        slot.sequence.load(Ordering::Acquire) == self.received.wrapping_add(1)
    }

    fn receive_one(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(SLOT_BYTES) {
            spin(|| self.is_there().then_some(()));
            let slot = &self.from.slots[self.received as usize % SLOTS];
            // SAFETY: the sequence number says that the sender has filled this slot. The sender does not write to it
            // again before `taken` has passed it.
            chunk.copy_from_slice(unsafe { &(&*slot.data.get())[..chunk.len()] });
            self.received = self.received.wrapping_add(1);
            if (self.received as usize).is_multiple_of(SLOTS / 4) {
                self.from.taken.store(self.received, Ordering::Release);
            }
        }
    }
}

impl Link for Slots<'_> {
    fn send(&mut self, data: &[u8]) -> io::Result<()> {
        for chunk in data.chunks(SLOT_BYTES) {
            if self.sent.wrapping_sub(self.taken) as usize == SLOTS {
                let before = self.taken;
                self.taken = spin(|| {
                    let taken = self.to.taken.load(Ordering::Acquire);
                    (taken != before).then_some(taken)
                });
            }
            let slot = &self.to.slots[self.sent as usize % SLOTS];
            // SAFETY: `taken` says that the receiver has emptied this slot. The receiver does not read it again before
            // the sequence number says that it is full.
            unsafe { (&mut *slot.data.get())[..chunk.len()].copy_from_slice(chunk) };
            self.sent = self.sent.wrapping_add(1);
            slot.sequence.store(self.sent, Ordering::Release);
        }
        Ok(())
    }

    fn receive(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len + self.message_bytes <= data.len() && (len == 0 || self.is_there()) {
            self.receive_one(&mut data[len..len + self.message_bytes]);
            len += self.message_bytes;
        }
        Ok(len)
    }
}
