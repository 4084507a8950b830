//! Memory of the segment in which a process leaves bytes to its peer. The peer can read these bytes after the
//! process has died.

use crate::link::Attachment;
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_ring::layout::OVERFLOW_BUFFER;
use sovia_ring::segment::SideIndex;
use std::sync::Arc;
use via::bequest::{Bequest, WORDS};

/// Offset of the bequest in the overflow buffer. The bequest lies behind the window of staged RDMAs, and behind the
/// bytes that [`crate::link`] keeps from a VI's earlier generation. So RDMAs do not overwrite the bequest, and it
/// consists of zeros at the start of a connection.
const AT: u64 = 1 << 20;
/// Size of each direction's bequest in bytes.
const LEN: usize = 64 << 10;
/// Offset of the bequest's bytes in the overflow buffer. The bequest's words lie in the page before them.
const BYTES_AT: u64 = AT + 4096;

const _: () = {
    assert!(AT >= super::rdma::WINDOW && BYTES_AT as usize + LEN <= OVERFLOW_BUFFER);
    assert!(WORDS * size_of::<AtomicU64>() <= 4096);
};

/// The bequests of a connection's two directions.
#[derive(Debug)]
pub(super) struct Bequests(pub(super) Arc<Attachment>);

impl Bequests {
    fn word(&self, from: SideIndex, word: usize) -> &AtomicU64 {
        let at = AT + (word % WORDS * size_of::<AtomicU64>()) as u64;
        // SAFETY: the offset is within the overflow buffer (asserted above). The attachment keeps the segment mapped.
        // The word is aligned, and both ends use it only as an atomic.
        unsafe { self.0.overflow_buffer(from, at).cast::<AtomicU64>().as_ref() }
    }

    fn fits(at: usize, len: usize) -> bool {
        at <= LEN && len <= LEN - at
    }
}

impl Bequest for Bequests {
    fn len(&self) -> usize {
        LEN
    }

    fn write(&self, at: usize, bytes: &[u8]) -> bool {
        let fits = Bequests::fits(at, bytes.len());
        if fits && !bytes.is_empty() {
            let to = self.0.overflow_buffer(self.0.side, BYTES_AT + at as u64);
            // SAFETY: `fits` checks that the target is within the overflow buffer, which the attachment keeps mapped.
            // No Rust slice lies in a segment, so the ranges do not overlap. A peer that writes there can only change
            // these bytes.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        }
        fits
    }

    fn publish(&self, word: usize, value: u64) {
        // SYNC: pairs with the Acquire load in `published`.
        self.word(self.0.side, word).store(value, Ordering::Release);
    }

    fn read(&self, at: usize, out: &mut [u8]) -> bool {
        let fits = Bequests::fits(at, out.len());
        if fits && !out.is_empty() {
            let from = self.0.overflow_buffer(self.0.side ^ 1, BYTES_AT + at as u64);
            // SAFETY: `fits` checks that the source is within the overflow buffer, which the attachment keeps mapped.
            // No Rust slice lies in a segment, so the ranges do not overlap. The peer may change the bytes during the
            // copy, but any bytes are valid.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) };
        }
        fits
    }

    fn published(&self, word: usize) -> u64 {
        // SYNC: pairs with the Release store in `publish`.
        self.word(self.0.side ^ 1, word).load(Ordering::Acquire)
    }
}
