//! What the words of a direction's control block mean for native VIs.
//!
//! `W_` words are in [`Direction::writer`], written by the end that sends in the direction; `R_`
//! words in [`Direction::reader`], written by the end that receives; `P_` words in
//! [`Direction::path`], written rarely by the sending end. An RDMA's words belong to the direction
//! of its initiator.
//!
//! [`Direction::writer`]: crate::layout::Direction::writer
//! [`Direction::reader`]: crate::layout::Direction::reader
//! [`Direction::path`]: crate::layout::Direction::path

/// Number of the RDMA that the initiator has staged last; the words below describe it.
pub(crate) const W_RDMA: usize = 0;
/// Its length (low half); in the high half, whether it is a read, and whether it is reported by a
/// message.
pub(crate) const W_WHAT: usize = 1;
/// The address in the target's memory.
pub(crate) const W_ADDRESS: usize = 2;
/// The target's memory handle.
pub(crate) const W_HANDLE: usize = 3;
/// Position in the stream of staged bytes at which it began.
pub(crate) const W_BASE: usize = 4;
/// The initiator's position in that stream: staged by a write, consumed by a read.
pub(crate) const W_POSITION: usize = 5;
/// Not 0 while the initiator reaches into the target's memory by itself.
pub(crate) const W_REACHING: usize = 6;
/// Messages dropped because no receive was posted (unreliable).
pub(crate) const W_DROPPED: usize = 7;

/// On which processor, plus one, the direction's reader waits.
pub(crate) const R_CPU: usize = 0;
/// The target's position in the stream of staged bytes.
pub(crate) const R_POSITION: usize = 1;
/// Number of the RDMA that the target has finished last (low half) and its status (high half).
pub(crate) const R_FINISHED: usize = 2;
/// The region that it was in: address, length, and the count of changes it was looked up at
/// (low half) with the rights (high half). For the initiator to reach into by itself next time.
pub(crate) const R_REGION: usize = 3;
pub(crate) const R_REGION_LEN: usize = 4;
pub(crate) const R_REGION_STATE: usize = 5;
/// Messages that lie in the receiver's memory (reliable reception).
pub(crate) const R_DELIVERED: usize = 6;

/// Why the writer of the direction has closed it.
pub(crate) const P_CLOSE: usize = 0;
