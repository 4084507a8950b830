//! Memory of a segment that an upper layer reads and writes by place.

use crate::layout::AREA;
use crate::pool::POOL;
use core::ptr::NonNull;
use sovia_signal::access;

/// Memory of a direction that the layer above uses as it likes.
pub type Area = Range<AREA>;
/// A direction's pool and area in one.
pub type Bulk = Range<{ AREA + POOL as usize }>;

/// `N` bytes of a segment.
#[derive(Debug, Clone, Copy)]
pub struct Range<const N: usize>(pub(crate) NonNull<u8>);

impl<const N: usize> Range<N> {
    /// Its length in bytes.
    pub const LEN: usize = N;

    /// Copies in; false if the place is not within the range, or `bytes`, which may be the program's,
    /// cannot be read.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) -> bool {
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= N);
        // SAFETY: just checked; the range is mapped by the contract of `Endpoint::new`. Ends
        // that use it agree on which end may touch which bytes; a peer that breaks this can only
        // spoil its own stream.
        fits && unsafe {
            access::copy(self.0.as_ptr().add(at), bytes.as_ptr(), bytes.len()).is_ok()
        }
    }

    /// Copies out; false if the place is not within the range, or `out`, which may be the program's,
    /// cannot be written.
    #[inline]
    pub fn read(&self, at: usize, out: &mut [u8]) -> bool {
        let fits = at.checked_add(out.len()).is_some_and(|end| end <= N);
        // SAFETY: as for `write`.
        fits && unsafe {
            access::copy(out.as_mut_ptr(), self.0.as_ptr().add(at), out.len()).is_ok()
        }
    }
}
