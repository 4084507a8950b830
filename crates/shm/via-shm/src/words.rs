//! Indexes of the words in a direction's control block, as native VIs use them.
//!
//! The end that sends in the direction writes the `W_` words ([`Direction::writer`]) and, rarely, the `P_` words
//! ([`Direction::path`]). The end that receives writes the `R_` words ([`Direction::reader`]). The words of an RDMA are
//! in the direction in which its initiator sends.
//!
//! [`Direction::writer`]: sovia_ring::layout::Direction::writer
//! [`Direction::reader`]: sovia_ring::layout::Direction::reader
//! [`Direction::path`]: sovia_ring::layout::Direction::path

/// Number of the RDMA that the initiator has staged last. The next five words describe this RDMA.
pub(crate) const W_RDMA: usize = 0;
/// Low half: the RDMA's length. High half: flags for a read, and for an RDMA that ends with a message.
pub(crate) const W_WHAT: usize = 1;
/// Address in the target's memory at which the RDMA begins.
pub(crate) const W_ADDRESS: usize = 2;
/// Memory handle at the target.
pub(crate) const W_HANDLE: usize = 3;
/// Position in the stream of staged bytes at which the RDMA begins.
pub(crate) const W_BASE: usize = 4;
/// The initiator's position in the stream of staged bytes: up to here it has staged bytes (for a write) or consumed
/// bytes (for a read).
pub(crate) const W_POSITION: usize = 5;
/// Not 0 while the initiator reads or writes the target's memory through `/proc/PID/mem`.
pub(crate) const W_REACHING: usize = 6;
/// Number of messages dropped because no receive was posted, at unreliable delivery.
pub(crate) const W_DROPPED: usize = 7;

/// Number (plus one) of the processor on which the direction's reader last waited.
pub(crate) const R_CPU: usize = 0;
/// The target's position in the stream of staged bytes.
pub(crate) const R_POSITION: usize = 1;
/// Low half: number of the RDMA that the target has finished last. High half: the status of this RDMA.
pub(crate) const R_FINISHED: usize = 2;
/// Address of the last RDMA's region. The initiator uses this word and the next two for direct access at its next RDMA.
/// `R_REGION_STATE` holds the region's rights (high half) and the value of `Side::regions` at which the target looked
/// the region up (low half).
pub(crate) const R_REGION: usize = 3;
pub(crate) const R_REGION_LEN: usize = 4;
pub(crate) const R_REGION_STATE: usize = 5;
/// Number of messages that lie in the receiver's memory, at reliable reception.
pub(crate) const R_DELIVERED: usize = 6;

/// Reason why the direction's writer has closed the connection.
pub(crate) const P_CLOSE: usize = 0;
