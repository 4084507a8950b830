//! One end of a connected VI.
//!
//! An endpoint points only into the segment, so it can live in memory that forked processes share. The layer above
//! must ensure that one thread at a time uses each half. A send executes in the calling thread. When the call
//! returns, the message is in the segment, and the peer receives it even if the sender dies. The endpoint posts
//! receives for the whole ring at the start, and again as the program consumes entries. A message stays in the ring
//! or the pool until the program consumes it.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wrap_tests;

pub use crate::range::{Bulk, OverflowBuffer, Range};
pub use crate::ready_list::notify;
use crate::segment::{Segment, SideIndex};
pub use receiver::{Expected, Receiver};
pub use sender::{Sender, Unsent};

/// Maximum size of a message in bytes.
pub const MESSAGE_MAX: usize = 64 << 10;
/// Number of consumed entries after which the receiver posts receives again.
pub const CREDIT_BATCH: u32 = 16;

/// One end of a VI: its sending half and its receiving half.
#[derive(Debug)]
#[repr(C)]
pub struct Endpoint {
    /// The sending half.
    pub tx: Sender,
    /// The receiving half.
    pub rx: Receiver,
}

impl Endpoint {
    /// Creates one end of `vi`, in its initial state.
    ///
    /// # Safety
    /// In every process that uses the endpoint, the segment must stay mapped at its address for as long as the endpoint
    /// is in use. At most one thread at a time may use each half.
    pub unsafe fn new(segment: &Segment, vi: u32, side: SideIndex) -> Endpoint {
        // SAFETY: this function's contract includes the contracts of `Sender::new` and `Receiver::new`.
        let (tx, rx) =
            unsafe { (Sender::new(segment, vi, side), Receiver::new(segment, vi, side ^ 1)) };
        Endpoint { tx, rx }
    }
}
