//! The memory that two processes of one host share, and the two ends' access to it.
//!
//! A [`Segment`] is one sealed memory file, which both processes map. A segment holds up to [`layout::VIS`] pairs of
//! VIs. Each direction of a VI consists of:
//!
//! - A ring of 128-byte queue entries ([`ring`]). A message of up to [`ring::INLINE`] bytes travels inside its
//!   entry. For a message of a few bytes, only one cache line moves between the processors.
//! - A pool ([`pool`]) for longer messages. Each VI has its own pools, so an unread VI never delays another. A pool
//!   uses no memory until the first message is written to it.
//! - A list of undelivered messages, which the reader fills when it leaves the VI before it has read all messages
//!   ([`undelivered`]).
//! - Credit: the number of receives that the reader has posted, and the pool position up to which the reader has
//!   released bytes.
//! - Two [`ready_list::WakeWord`]s, for the reader's waiting threads and for the writer's waiting threads. Each is a
//!   futex word, a count of sleeping threads, and a bit for each ready list that watches this direction.
//!
//! A segment also has a table by which the two processes agree on the VI of a connection ([`request`]).
//!
//! The sockets layer uses an [`Endpoint`], one end of a connected VI. The endpoint posts all its receives at the start.
//! Messages arrive in the ring and the pool, not in the program's memory. The program's receive call copies the message
//! out. The provider `via-shm` uses segments and the halves of a VI directly ([`half`]). On its VIs, the program posts
//! the receives.
//!
//! **Trust.** The peer can write to any part of the segment at any time. Code loads each value from the segment once,
//! and checks the value before use. An invalid value breaks the connection ([`Corrupt`]), never the process. State that
//! only one end needs lies outside the segment.

pub mod quiet;
pub mod ready_list;
pub mod ring;
mod sync;

#[cfg(not(loom))]
pub mod doorbell;
#[cfg(not(loom))]
pub mod endpoint;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(loom))]
pub mod half;
#[cfg(not(loom))]
pub mod layout;
#[cfg(not(loom))]
pub mod pool;
#[cfg(not(loom))]
mod range;
#[cfg(not(loom))]
pub mod request;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
pub mod undelivered;

#[cfg(not(loom))]
pub use endpoint::Endpoint;
#[cfg(not(loom))]
pub use segment::Segment;

/// Reports a value in the segment that a correct peer cannot have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shared segment is corrupt: {0}")]
pub struct Corrupt(pub &'static str);
