//! Moves by the medium: the bytes of long messages go from memory to memory, without frames.
//!
//! 1. The sender's world announces a message of [`Medium::moves_from`](crate::Medium::moves_from) bytes or more, by a
//!    part without bytes in the stream.
//! 2. The receiver's world checks the message and finds the destination: a posted receive, or a region with the needed
//!    rights. The world passes the destination to its medium ([`expect`](crate::Medium::expect)).
//! 3. The receiver's medium makes the memory ready and notifies the sender's medium, which calls
//!    [`World::ready`](crate::World::ready).
//! 4. The sender's world [`dispatches`](crate::Medium::dispatch) the bytes, or [`withdraws`](crate::Medium::withdraw)
//!    the message if it no longer exists. Every expectation ends in one of the two, or with the loss of the peer
//!    ([`World::node_lost`](crate::World::node_lost)).
//! 5. Both media report the end of the move ([`World::moved`](crate::World::moved)).
//!
//! An announced message counts as received when its bytes are in place.
//!
//! So bytes travel only when memory is ready for them, and the target checks the rights for each message.

use via::Memory;

/// Identifies a move at one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MoveId(pub u64);

/// A part of registered memory. The memory stays valid during the move, because memory is deregistered only after its
/// moves have ended.
#[derive(Debug, Clone)]
pub struct Span {
    /// The memory.
    pub memory: Memory,
    /// Start of the part in the memory.
    pub at: usize,
    /// Number of bytes.
    pub len: u32,
    /// The region's key from [`Medium::register`](crate::Medium::register); `None` for memory of the world itself.
    pub key: Option<u64>,
}

/// Identifies an announced message between the two media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected<N> {
    /// Node of the sender.
    pub from: N,
    /// Names of the sender's end and of this world's end.
    pub ends: [sovia_link::wire::EndId; 2],
    /// Number of the message's item in the stream.
    pub number: u64,
}
