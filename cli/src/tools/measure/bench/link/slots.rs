//! The hardware's limit for small messages: a ring of slots of one cache line each, with data
//! and sequence number in the same line, so that a message costs one hand-over of a line.

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Link, spin};

/// Bytes of a message in one slot.
const SLOT_BYTES: usize = 60;
/// Slots in a ring.
const SLOTS: usize = 1024;
/// Messages beyond this go faster through [`bytes`](super::bytes), in bytes.
pub(in crate::measure::bench) const MESSAGE_BYTES_MAX: usize = 4 * SLOT_BYTES;

#[repr(C, align(64))]
struct Slot {
    /// One more than the position of the message in it; positions never repeat within a lap.
    sequence: AtomicU32,
    data: UnsafeCell<[u8; SLOT_BYTES]>,
}

/// The ring in shared memory, from one sender to one receiver.
#[repr(C, align(64))]
pub(in crate::measure::bench) struct SlotQueue {
    /// Position up to which the receiver has emptied slots; told now and then.
    taken: AtomicU32,
    slots: [Slot; SLOTS],
}

/// One end of a pair of rings.
pub(in crate::measure::bench) struct Slots<'a> {
    to: &'a SlotQueue,
    from: &'a SlotQueue,
    message_bytes: usize,
    sent: u32,
    /// What `to.taken` was when last looked at.
    taken: u32,
    received: u32,
}

impl<'a> Slots<'a> {
    /// For messages of `message_bytes` each, all the same.
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
            // SAFETY: the sequence number says that the sender has filled this slot, and it does
            // not touch it again before `taken` says so.
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
            // SAFETY: the receiver has emptied this slot, as `taken` says, and does not look into
            // it before the sequence number says that it is full.
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
