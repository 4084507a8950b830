//! Messages of a direction that the reader leaves unread when it leaves the VI. The writer puts their bytes on another
//! path.
//!
//! The ring does not show which messages are unread. The reader may have taken messages off the ring, and posted their
//! receives again, before the program read them. The list gives the pool offset of a pooled message, whose bytes stay
//! in the pool until the reader releases them. The list holds a copy of each inline message.

use crate::Corrupt;
use crate::pool::POOL;
use crate::ring::{Entry, INLINE, SLOTS, Slot};
use core::ptr::NonNull;

/// An undelivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftMessage<'a> {
    /// The bytes of an inline message; at most [`INLINE`].
    Inline(&'a [u8]),
    /// A message in the pool.
    Pooled {
        /// Offset of the message in the pool.
        at: u32,
        /// Length of the message in bytes.
        len: u32,
    },
}

/// The list of undelivered messages of one direction. The reader of the direction adds messages, and the writer of
/// the direction reads the list.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Undelivered(pub(crate) NonNull<[Slot; SLOTS as usize]>);

impl Undelivered {
    /// Maximum number of messages in the list: the size of the ring.
    pub const MAX: u32 = SLOTS;

    fn slot(&self, n: u32) -> &Slot {
        // SAFETY: `Endpoint::new`'s contract keeps the segment mapped. A slot consists of atomics only, so shared
        // references are sound.
        unsafe { &self.0.as_ref()[(n % SLOTS) as usize] }
    }

    /// Adds message `n`, counted from 0.
    pub fn leave(&self, n: u32, left: LeftMessage<'_>) {
        let slot = self.slot(n);
        let (len, pool_offset) = match left {
            LeftMessage::Inline(bytes) => {
                let bytes = &bytes[..bytes.len().min(INLINE)];
                slot.copy_in(bytes);
                (bytes.len() as u32, None)
            }
            LeftMessage::Pooled { at, len } => (len, Some(at)),
        };
        slot.publish(n, Entry { immediate: 0, len, pool_offset });
    }

    /// Returns the header of message `n`, which the reader has added.
    ///
    /// # Errors
    /// [`Corrupt`] if the list has no message `n`, or its header is invalid.
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

    /// Copies bytes of the inline message `n` to `out`, from byte `from` of the message on.
    pub fn copy(&self, n: u32, from: usize, out: &mut [u8]) {
        self.slot(n).copy_out(from, out);
    }
}
