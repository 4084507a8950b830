//! The Virtual Interface Architecture, as software: what every provider of VIs has in common.
//!
//! VIA 1.0 gives a process protected, connection-oriented endpoints that it drives without the
//! kernel. This crate has the architecture's nouns and rules, and no transport:
//!
//! - [`descriptor`]: what a program writes into registered memory to say "send this" or "receive
//!   here", bit for bit as C programs lay it out, with the [`flags`] of its control and status;
//! - [`tag`], [`memory`]: protection tags and memory handles; memory that a NIC may touch ([`Memory`]),
//!   and the table that checks every access against them;
//! - [`state`], [`connection`]: the life of a VI, and of a request for a connection, as declared
//!   tables;
//! - [`queue`]: the bookkeeping of a work queue: in order, each descriptor done exactly once;
//! - [`nic`], [`vi`], [`cq`]: the traits [`Nic`], [`Connection`], [`Vi`] and [`CompletionQueue`]
//!   that providers implement, with [`attributes`], [`address`]es and [`error`]s (each maps to
//!   VIPL's return codes);
//! - [`slots`]: descriptors with buffers, in memory that stays registered, for what is written over any NIC;
//! - [`bequest`]: what a dead process leaves to its peer, where a provider can keep it;
//! - [`event`]: errors that belong to no call, and the thread that runs callbacks.
//!
//! A provider brings the wire. `via-conformance` is the suite that each must pass.
//!
//! Unsafe code is denied but for one module, [`memory::buffer`], which turns registered
//! addresses into something that the rest can use safely.

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
