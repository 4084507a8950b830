//! What the reader of a direction leaves unread when it leaves the VI: a list of messages, for the writer,
//! which puts their bytes elsewhere.
//!
//! The entries of the ring do not say it: the reader may have taken messages off the ring, and posted their
//! receives again, before the program wanted them. Pooled messages are named by their places, where they lie
//! until the reader releases them; others are copied here.

use crate::Corrupt;
use crate::pool::POOL;
use crate::ring::{Entry, INLINE, SLOTS, Slot};
use core::ptr::NonNull;

/// A message that is left unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left<'a> {
    /// One that had travelled in its entry; at most [`INLINE`] bytes.
    Inline(&'a [u8]),
    /// One in the pool.
    Pooled {
        /// Where it begins.
        at: u32,
        /// Its length in bytes.
        len: u32,
    },
}

/// The list of one direction of a VI. Written by its reader, read by its writer.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Undelivered(pub(crate) NonNull<[Slot; SLOTS as usize]>);

impl Undelivered {
    /// How many messages the list can name: as many as the ring.
    pub const MAX: u32 = SLOTS;

    fn slot(&self, n: u32) -> &Slot {
        // SAFETY: `Endpoint::new`'s contract keeps the segment mapped; a slot is all atomics.
        unsafe { &self.0.as_ref()[(n % SLOTS) as usize] }
    }

    /// Names the message of that number, from 0 on.
    pub fn leave(&self, n: u32, left: Left<'_>) {
        let slot = self.slot(n);
        let (len, pool_offset) = match left {
            Left::Inline(bytes) => {
                let bytes = &bytes[..bytes.len().min(INLINE)];
                slot.copy_in(bytes);
                (bytes.len() as u32, None)
            }
            Left::Pooled { at, len } => (len, Some(at)),
        };
        slot.publish(n, Entry { immediate: 0, len, pool_offset });
    }

    /// The message of that number, which has been named.
    ///
    /// # Errors
    /// [`Corrupt`] if there is none, or it makes no sense.
    pub fn find(&self, n: u32) -> Result<Entry, Corrupt> {
        let entry = self.slot(n).read(n).ok_or(Corrupt("no undelivered message"))?;
        match entry.pool_offset {
            None if entry.len as usize > INLINE => Err(Corrupt("undelivered message too long")),
            Some(at) if u64::from(at) + u64::from(entry.len) > POOL => {
                Err(Corrupt("undelivered message outside the pool"))
            }
            _ => Ok(entry),
        }
    }

    /// Copies bytes of that message out, from byte `from` on, if it is here and not in the pool.
    pub fn copy(&self, n: u32, from: usize, out: &mut [u8]) {
        self.slot(n).copy_out(from, out);
    }
}
