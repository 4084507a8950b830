//! The Virtual Interface Architecture in software: the parts that all providers of VIs share.
//!
//! VIA 1.0 gives a process protected, connection-oriented endpoints that the process drives without the kernel. This
//! crate has the architecture's data types and rules, but no transport:
//!
//! - [`descriptor`]: requests to send or receive, in registered memory and in the binary layout of C programs, with the
//!   [`flags`] of their control and status;
//! - [`tag`], [`memory`]: protection tags and memory handles; memory that a NIC may access ([`Memory`]), and the table
//!   that checks every access;
//! - [`state`], [`connection`]: the states of a VI, and of a request for a connection, as tables;
//! - [`queue`]: the bookkeeping of a work queue. Descriptors complete in order, each exactly once;
//! - [`nic`], [`vi`], [`cq`]: the traits [`Nic`], [`Connection`], [`Vi`] and [`CompletionQueue`] that providers
//!   implement, with [`attributes`], [`address`]es and [`error`]s (each maps to VIPL's return codes);
//! - [`slots`]: descriptors with buffers in registered memory, for code that works over any NIC;
//! - [`bequest`]: bytes that a dead process leaves to its peer, where a provider can keep them;
//! - [`event`]: errors that belong to no call, and the thread that runs callbacks.
//!
//! A provider adds the transport. `via-conformance` is the test suite that every provider must pass.
//!
//! The crate denies unsafe code except in [`memory::buffer`]. That module turns registered addresses into values that
//! the other modules can use safely.

#![deny(unsafe_code)]

pub mod address;
pub mod attributes;
pub mod bequest;
pub mod connection;
pub mod cq;
pub mod descriptor;
pub mod error;
pub mod event;
pub mod flags;
pub mod memory;
pub mod nic;
pub mod queue;
pub mod slots;
pub mod state;
pub mod tag;
pub mod vi;

pub use address::NetAddress;
pub use attributes::{Capabilities, MemAttributes, NicAttributes, Reliability, ViAttributes};
pub use bequest::Bequest;
pub use cq::{Attach, CompletionQueue, CqEntry, WorkQueueKind};
pub use descriptor::{DataSegment, DescriptorAddress, DescriptorRef, RemoteSegment};
pub use error::{Cause, ErrorCode, ReturnCode};
pub use event::{AsyncError, Dispatcher, Resource};
pub use flags::{Control, Status};
pub use memory::Memory;
pub use nic::{Connection, Nic};
pub use queue::{Completion, Done};
pub use slots::Slots;
pub use state::ViState;
pub use tag::{MemHandle, Ptag};
pub use vi::Vi;
