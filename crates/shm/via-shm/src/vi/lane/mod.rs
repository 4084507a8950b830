//! The two directions of a native VI. Each direction has a ring, a pool, and an exact count of posted receives.
//!
//! An endpoint of the sockets layer always has all receives posted. On a native VI the program posts receives, and
//! the receiver publishes their total number. So the sender can distinguish a full ring from a missing receive. The
//! sender waits while the ring is full. A missing receive breaks a reliable connection.
//!
//! A message of up to [`FRAGMENT`] bytes takes one entry. A longer message takes several entries. The two ends copy
//! different entries at the same time, so the transfer is as fast as one copy.

mod rx;
mod tx;

pub(crate) use rx::{Piece, RxLane};
pub(crate) use tx::{Permit, TxLane};

use crate::link::Attachment;
use core::ops::Deref;
use sovia_ring::endpoint::MESSAGE_MAX;
use sovia_ring::half::Half;
use sovia_ring::ring::SLOTS;
use sovia_ring::segment::SideIndex;
use std::sync::Arc;

/// Maximum number of message bytes per entry.
pub(crate) const FRAGMENT: usize = MESSAGE_MAX;
/// Number of consumed entries after which the receiver publishes new credit to the sender.
const BATCH: u32 = SLOTS / 4;

/// Flag in an entry's length: the message carries immediate data.
const IMMEDIATE: u32 = 1 << 20;
/// Flag in an entry's length: the message continues in the next entry.
const MORE: u32 = 1 << 21;
/// Flag in an entry's length: the entry reports an RDMA write of the peer. The entry holds the number of bytes
/// written, and uses up a posted receive.
const WRITTEN: u32 = 1 << 22;
const LENGTH: u32 = IMMEDIATE - 1;
const _: () = assert!(FRAGMENT <= LENGTH as usize);

/// One direction of a VI, and a reference that keeps the direction's memory mapped. The sender and the receiver
/// each have one.
#[derive(Debug)]
struct MappedHalf {
    /// Keeps the segment mapped, and this process's end of the VI in use.
    attachment: Arc<Attachment>,
    half: Half,
}

// SAFETY: the half points into a segment that `attachment` keeps mapped. Threads of two processes share the segment.
// Control blocks and rings are atomics, and the protocol gives each range of the pool to one end at a time.
unsafe impl Send for MappedHalf {}

impl MappedHalf {
    fn new(attachment: &Arc<Attachment>, from: SideIndex) -> MappedHalf {
        // SAFETY: `attachment` keeps the segment mapped, and is stored beside the half.
        let half = unsafe { Half::new(&attachment.link.segment, attachment.vi, from) };
        MappedHalf { attachment: attachment.clone(), half }
    }
}

impl Deref for MappedHalf {
    type Target = Half;

    #[inline(always)]
    fn deref(&self) -> &Half {
        &self.half
    }
}

#[cfg(test)]
#[path = "../lane_tests.rs"]
mod tests;
