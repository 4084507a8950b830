//! Memory of a segment that an upper layer reads and writes by place.

use crate::layout::AREA;
use crate::pool::POOL;
use core::marker::PhantomData;
use core::ptr::NonNull;
use sovia_signal::access;
use sovia_sys::{UserSlice, UserSliceMut};

/// Memory of a direction that the layer above uses as it likes.
pub type Area<'s> = Range<'s, AREA>;
/// A direction's pool and area in one.
pub type Bulk<'s> = Range<'s, { AREA + POOL as usize }>;

/// `N` bytes of a segment that stays mapped for `'s`.
#[derive(Debug, Clone, Copy)]
pub struct Range<'s, const N: usize> {
    at: NonNull<u8>,
    segment: PhantomData<&'s ()>,
}

impl<const N: usize> Range<'_, N> {
    /// The `N` bytes at `at`.
    ///
    /// # Safety
    /// They are a segment's, which stays mapped for as long as this lives.
    pub(crate) unsafe fn new(at: NonNull<u8>) -> Self {
        Range { at, segment: PhantomData }
    }

    /// Its length in bytes.
    pub const LEN: usize = N;

    /// Copies in; false if the place is not within the range, or `bytes`, which may be the program's,
    /// cannot be read.
    #[inline]
    pub fn write<'b>(&self, at: usize, bytes: impl Into<UserSlice<'b>>) -> bool {
        let bytes = bytes.into();
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= N);
        // SAFETY: just checked; the range is mapped. Ends
        // that use it agree on which end may touch which bytes; a peer that breaks this can only
        // spoil its own stream.
        fits && unsafe {
            access::copy(self.at.as_ptr().add(at), bytes.as_ptr(), bytes.len()).is_ok()
        }
    }

    /// Copies out; false if the place is not within the range, or `out`, which may be the program's,
    /// cannot be written.
    #[inline]
    pub fn read<'b>(&self, at: usize, out: impl Into<UserSliceMut<'b>>) -> bool {
        let out = out.into();
        let fits = at.checked_add(out.len()).is_some_and(|end| end <= N);
        // SAFETY: as for `write`.
        fits && unsafe {
            access::copy(out.as_mut_ptr(), self.at.as_ptr().add(at), out.len()).is_ok()
        }
    }
}
