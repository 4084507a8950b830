//! The two directions of a native VI: its ring and pool, with exact counts of posted receives.
//!
//! Unlike the endpoints of the sockets layer, whose receives are always posted, here the program
//! posts them, and the receiver publishes how many ever. So the sender can tell "there is no room
//! in the ring", where it waits, from "no receive is posted", which breaks a reliable connection.
//!
//! A message of up to [`FRAGMENT`] bytes is one entry. A longer one is several, which the two
//! ends copy at the same time, each a different one: as fast as one copy, whatever the length.

mod rx;
mod tx;

pub(crate) use rx::{Piece, RxLane};
pub(crate) use tx::{Permit, TxLane};

use crate::endpoint::MESSAGE_MAX;
use crate::half::Half;
use crate::link::Attachment;
use crate::ring::SLOTS;
use crate::segment::SideIndex;
use core::ops::Deref;
use std::sync::Arc;

/// Bytes of a message that one entry carries at most.
pub(crate) const FRAGMENT: usize = MESSAGE_MAX;
/// Entries that have been consumed are given back in batches of this many.
const BATCH: u32 = SLOTS / 4;

/// In an entry's length: the message carries immediate data.
const IMMEDIATE: u32 = 1 << 20;
/// The message goes on with the next entry.
const MORE: u32 = 1 << 21;
/// The peer has written to our memory; the entry says how many bytes, and takes a receive.
const WRITTEN: u32 = 1 << 22;
const LENGTH: u32 = IMMEDIATE - 1;
const _: () = assert!(FRAGMENT <= LENGTH as usize);

/// One direction, seen from either end, and what keeps it where it is.
#[derive(Debug)]
struct Kept {
    /// Keeps the segment mapped and the VI taken.
    attachment: Arc<Attachment>,
    half: Half,
}

// SAFETY: the half leads into a segment that `attachment` keeps mapped and that is made for several threads, of several
// processes even: atomics, and pool bytes copied by their owner.
unsafe impl Send for Kept {}

impl Kept {
    fn new(attachment: &Arc<Attachment>, from: SideIndex) -> Kept {
        // SAFETY: the segment stays mapped as long as the attachment, which is kept beside the half.
        let half = unsafe { Half::new(&attachment.link.segment, attachment.vi, from) };
        Kept { attachment: attachment.clone(), half }
    }
}

impl Deref for Kept {
    type Target = Half;

    #[inline(always)]
    fn deref(&self) -> &Half {
        &self.half
    }
}

#[cfg(test)]
#[path = "../lane_tests.rs"]
mod tests;
