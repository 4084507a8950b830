//! What a medium moves itself: the bytes of long messages, from memory to memory, without frames.
//!
//! A message of [`Medium::moves_from`](crate::Medium::moves_from) bytes or more is announced in its place in the stream, by a part
//! without bytes. The world that receives it finds where its bytes belong, with all that is to be checked (the posted receive, or
//! the rights to a region), and has the medium [`expect`](crate::Medium::expect) them there; the medium makes the memory ready and
//! tells the peer's, which calls [`World::ready`](crate::World::ready). There the bytes are
//! [`dispatched`](crate::Medium::dispatch), or, where the message is no more, [`withdrawn`](crate::Medium::withdraw): each
//! expectation ends in one of the two, or with the peer ([`World::node_lost`](crate::World::node_lost)). Both media tell their worlds when
//! they are through ([`World::moved`](crate::World::moved)). An announced message counts as received when its bytes are in place.
//!
//! So a sender's bytes travel only when memory is ready for them, and rights are looked at by the target, for each message.

use via::Memory;

/// Names a move, on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MoveId(pub u64);

/// A part of registered memory. It stays valid while the move lasts: memory is deregistered only when nothing moves there.
#[derive(Debug, Clone)]
pub struct Span {
    /// The memory.
    pub memory: Memory,
    /// Where in it the part begins.
    pub at: usize,
    /// Bytes.
    pub len: u32,
    /// What [`Medium::register`](crate::Medium::register) has called the region; `None` for memory of the world's own.
    pub key: Option<u64>,
}

/// A message that has been announced, as the two media speak of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected<N> {
    /// The node that has announced it.
    pub from: N,
    /// That node's end of the connection, and the own one.
    pub ends: [sovia_link::wire::EndId; 2],
    /// The number of its item in the stream.
    pub number: u64,
}
