//! Ranges of a segment that an upper layer reads and writes by offset.

use crate::layout::OVERFLOW_BUFFER;
use crate::pool::POOL;
use core::marker::PhantomData;
use core::ptr::NonNull;
use sovia_signal::access;
use sovia_sys::{UserSlice, UserSliceMut};

/// A direction's overflow buffer, which the layer above uses.
pub type OverflowBuffer<'s> = Range<'s, OVERFLOW_BUFFER>;
/// A direction's pool and overflow buffer as one range.
pub type Bulk<'s> = Range<'s, { OVERFLOW_BUFFER + POOL as usize }>;

/// `N` bytes of a segment that stays mapped for `'s`.
#[derive(Debug, Clone, Copy)]
pub struct Range<'s, const N: usize> {
    at: NonNull<u8>,
    segment: PhantomData<&'s ()>,
}

impl<const N: usize> Range<'_, N> {
    /// Creates the range of the `N` bytes at `at`.
    ///
    /// # Safety
    /// The bytes are in a segment, which stays mapped for as long as the range exists.
    pub(crate) unsafe fn new(at: NonNull<u8>) -> Self {
        Range { at, segment: PhantomData }
    }

    /// Length in bytes.
    pub const LEN: usize = N;

    /// Copies `bytes` to offset `at`. Returns false if the target exceeds the range, or if `bytes`, which may belong to
    /// the program, cannot be read.
    #[inline]
    pub fn write<'b>(&self, at: usize, bytes: impl Into<UserSlice<'b>>) -> bool {
        let bytes = bytes.into();
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= N);
        // SAFETY: `fits` checks that the target is within the range, which `new`'s contract keeps mapped. The two ends
        // agree on which end may use which bytes. A peer that breaks the agreement only corrupts its own stream.
        fits && unsafe {
            access::copy(self.at.as_ptr().add(at), bytes.as_ptr(), bytes.len()).is_ok()
        }
    }

    /// Copies from offset `at` to `out`. Returns false if the source exceeds the range, or if `out`, which may belong
    /// to the program, cannot be written.
    #[inline]
    pub fn read<'b>(&self, at: usize, out: impl Into<UserSliceMut<'b>>) -> bool {
        let out = out.into();
        let fits = at.checked_add(out.len()).is_some_and(|end| end <= N);
        // SAFETY: `fits` checks that the source is within the range, which `new`'s contract keeps mapped. The peer may
        // change the bytes during the copy, but any bytes are valid.
        fits && unsafe {
            access::copy(out.as_mut_ptr(), self.at.as_ptr().add(at), out.len()).is_ok()
        }
    }
}
