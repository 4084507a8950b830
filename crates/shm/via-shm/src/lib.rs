//! The `shm` provider: Virtual Interfaces between the processes of one host.
//!
//! The NIC is code that runs in the calling threads. Two processes share segments of memory. The crate `sovia-ring`
//! holds the contents of a segment: the rings and pools of its VIs, and the words by which the two ends notify each
//! other. This crate builds [`ShmNic`], [`ShmVi`] and [`ShmCq`] upon these parts. They are the NIC, the VIs and the
//! completion queues of the VI Architecture (the traits of `via`). The program registers memory, posts descriptors and
//! collects their completions.
//!
//! - [`connect`] explains how two processes connect.
//! - [`vi`] explains queues, waiting and errors.
//! - `link` holds the segments that this process shares with others, and the ends of VIs that it holds.
//! - `engine` is the thread that makes progress while the program makes no call.
//!
//! **Trust.** The peer can write to any part of a segment at any time. This crate, like `sovia-ring`, loads each value
//! once, and checks the value before use. An invalid value breaks the connection, never the process.

// Under loom there is only the part of `sovia-ring` that the models use.
#![cfg(not(loom))]

mod bias;
mod card;
mod completion;
pub mod connect;
pub mod cq;
mod engine;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod link;
pub mod nic;
mod patience;
pub mod vi;
mod words;

// For crates that still name the ring by this one.
pub use cq::ShmCq;
pub use nic::{ShmConnection, ShmNic};
pub use sovia_ring::{
    Corrupt, Endpoint, Segment, doorbell, endpoint, layout, pool, quiet, ready_list, request, ring,
    segment, undelivered,
};
pub use vi::ShmVi;
