//! What a process leaves to its peer: a part of the segment, which outlives them.

use crate::layout::AREA;
use crate::link::Attachment;
use crate::segment::SideIndex;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use via::bequest::{Bequest, WORDS};

/// Where it lies in the upper layer's area: behind what staged RDMAs use, and beyond what a VI's
/// earlier life may leave in memory, so that it begins as zeros.
const AT: u64 = 1 << 20;
/// Bytes of each direction.
const LEN: usize = 64 << 10;
/// The words come first, in a page of their own.
const BYTES_AT: u64 = AT + 4096;

const _: () = {
    assert!(AT >= super::rdma::WINDOW && BYTES_AT as usize + LEN <= AREA);
    assert!(WORDS * size_of::<AtomicU64>() <= 4096);
};

/// The two directions' parts.
#[derive(Debug)]
pub(super) struct Kept(pub(super) Arc<Attachment>);

impl Kept {
    fn word(&self, from: SideIndex, word: usize) -> &AtomicU64 {
        let at = AT + (word % WORDS * size_of::<AtomicU64>()) as u64;
        // SAFETY: the place is within the area (checked above) of a segment that the attachment
        // keeps mapped, aligned, and used as atomics by both ends.
        unsafe { self.0.area(from, at).cast::<AtomicU64>().as_ref() }
    }

    fn fits(at: usize, len: usize) -> bool {
        at <= LEN && len <= LEN - at
    }
}

impl Bequest for Kept {
    fn len(&self) -> usize {
        LEN
    }

    fn write(&self, at: usize, bytes: &[u8]) -> bool {
        let fits = Kept::fits(at, bytes.len());
        if fits && !bytes.is_empty() {
            let to = self.0.area(self.0.side, BYTES_AT + at as u64);
            // SAFETY: within the area of a mapped segment, which no slice of ours lies in. The peer
            // only reads there; one that does not spoils no more than bytes.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        }
        fits
    }

    fn publish(&self, word: usize, value: u64) {
        // SYNC: pairs with the Acquire load in `published`.
        self.word(self.0.side, word).store(value, Ordering::Release);
    }

    fn read(&self, at: usize, out: &mut [u8]) -> bool {
        let fits = Kept::fits(at, out.len());
        if fits && !out.is_empty() {
            let from = self.0.area(self.0.side ^ 1, BYTES_AT + at as u64);
            // SAFETY: as for `write`, the other way round.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) };
        }
        fits
    }

    fn published(&self, word: usize) -> u64 {
        // SYNC: pairs with the Release store in `publish`.
        self.word(self.0.side ^ 1, word).load(Ordering::Acquire)
    }
}
