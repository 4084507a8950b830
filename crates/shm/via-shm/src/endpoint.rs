//! One end of a connected VI.
//!
//! An endpoint is plain data without a pointer to anything but the segment, so that it can live in
//! memory which forked processes share; the layer that shares it sees to it that one at a time uses each
//! half. A send executes in the caller: when it returns, the message is in the segment and will
//! be received whatever becomes of the sender. Receives are posted for the whole ring at the
//! beginning, and again as entries are consumed; their memory is lent by the ring and the pool.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wrap_tests;

pub use crate::half::Half;
pub use crate::range::{Area, Bulk, Range};
pub use crate::ready_list::tell;
use crate::segment::{Segment, SideIndex};
pub use receiver::{Expected, Receiver};
pub use sender::{Sender, Unsent};

/// Bytes that one message may have.
pub const MESSAGE_MAX: usize = 64 << 10;
/// Consumed entries are posted again in batches of this many.
pub const CREDIT_BATCH: u32 = 16;

/// Both halves.
#[derive(Debug)]
#[repr(C)]
pub struct Endpoint {
    /// The sending half.
    pub tx: Sender,
    /// The receiving half.
    pub rx: Receiver,
}

impl Endpoint {
    /// One end of `vi`, fresh.
    ///
    /// # Safety
    /// The segment must stay mapped at its address, in every process that uses the endpoint, for
    /// as long as one does. At most one thread at a time may use each half.
    pub unsafe fn new(segment: &Segment, vi: u32, side: SideIndex) -> Endpoint {
        // SAFETY: the caller's contract, which is the same.
        let (tx, rx) =
            unsafe { (Sender::new(segment, vi, side), Receiver::new(segment, vi, side ^ 1)) };
        Endpoint { tx, rx }
    }
}
