//! The `shm` provider: Virtual Interfaces between the processes of one host.
//!
//! The NIC is code that runs in the calling threads. Two processes share segments of memory. The crate `sovia-ring`
//! has a segment's contents: the rings and pools of the VIs, and the words for notifications. This crate builds three
//! types of the VI Architecture upon these parts (the traits of `via`):
//!
//! - [`ShmNic`], a NIC. The program registers its memory with the NIC.
//! - [`ShmVi`], a VI. The program posts descriptors and collects their completions.
//! - [`ShmCq`], a completion queue for many VIs.
//!
//! [`connect`] explains how two processes connect. [`vi`] explains queues, waiting and errors. The module `link` holds
//! the segments that this process shares, and its ends of VIs. The module `engine` makes progress while the program
//! makes no call.
//!
//! **Trust.** The peer can write to any part of a segment at any time. Like `sovia-ring`, this crate loads each value
//! once, and checks the value before use. An invalid value breaks the connection, never the process.

// Under loom this crate is empty: the models in `tests/loom` use none of its types.
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

pub use cq::ShmCq;
pub use nic::{ShmConnection, ShmNic};
pub use vi::ShmVi;
