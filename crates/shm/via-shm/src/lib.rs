//! The `shm` provider: Virtual Interfaces between the processes of one host.
//!
//! It is a NIC that runs in its callers. Two processes share one sealed memory file, the
//! [`Segment`]; it holds up to [`layout::VIS`] pairs of VIs. Each direction of a VI is
//!
//! - a ring of 128-byte queue entries ([`ring`]): a message of up to [`ring::INLINE`] bytes travels
//!   inside its entry, one hand-over of a cache line for a few bytes;
//! - a pool ([`pool`]) for larger ones, private to the VI, so that a VI which is not read never
//!   delays another; it owns no memory until it is used;
//! - a list of what the reader has left unread, once it has left the VI ([`undelivered`]);
//! - credit: how many receives the far end has posted, and how much of the pool it has given back;
//! - a doorbell ([`ready_list`]): the threads and ready lists that wait for this direction, and whether they sleep.
//!
//! Two things are built of these:
//!
//! - [`Endpoint`], one end of a connected VI as the sockets layer uses it: every receive is posted
//!   and lent by the ring and the pool, so that a message is copied out when it is wanted;
//! - [`ShmNic`] and [`ShmVi`], the NIC and the VIs of the VI Architecture (the traits of `via`):
//!   the program registers memory, posts descriptors, and finds them done. [`connect`] says how
//!   two processes meet, [`vi`] how queues, waiting and errors work.
//!
//! **Trust.** Everything in the segment can be scribbled on by the peer. Whatever is read from it
//! is loaded once and checked before use; a value that cannot be true breaks the connection
//! ([`Corrupt`]), never the process. What one end alone must know lives outside the segment.

pub mod quiet;
pub mod ready_list;
pub mod ring;
mod sync;

#[cfg(not(loom))]
mod bias;
#[cfg(not(loom))]
mod card;
#[cfg(not(loom))]
mod completion;
#[cfg(not(loom))]
pub mod connect;
#[cfg(not(loom))]
pub mod cq;
#[cfg(not(loom))]
pub mod doorbell;
#[cfg(not(loom))]
pub mod endpoint;
#[cfg(not(loom))]
mod engine;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(loom))]
mod half;
#[cfg(not(loom))]
mod hash;
#[cfg(not(loom))]
pub mod layout;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
pub mod nic;
#[cfg(not(loom))]
mod patience;
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
pub mod vi;
#[cfg(not(loom))]
mod words;

#[cfg(not(loom))]
pub use cq::ShmCq;
#[cfg(not(loom))]
pub use endpoint::Endpoint;
#[cfg(not(loom))]
pub use nic::{ShmConnection, ShmNic};
#[cfg(not(loom))]
pub use segment::Segment;
#[cfg(not(loom))]
pub use vi::ShmVi;

/// The segment holds something that an honest peer cannot have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shared segment is corrupt: {0}")]
pub struct Corrupt(pub &'static str);
