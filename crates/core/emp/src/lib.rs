//! EMP's NIC (Shivam, Wyckoff, Panda: "EMP: Zero-copy OS-bypass NIC-driven Gigabit Ethernet Message Passing", SC 2001).
//! EMP sends messages with tags between nodes, without connections. The NIC matches messages with receives that were
//! posted before.
//!
//! This crate does no I/O, reads no clock, starts no thread and does not access a program's memory by itself. The owner
//! of an [`Engine`] passes frames and the time, and lends a [`Memory`] and a [`Sink`] for each call.
//!
//! - [`wire`]: frames as bytes. They have the header of `sovia-link`'s frames, and their own kinds;
//! - [`array`](mod@array): the 640 descriptors of 20 bytes through which host and NIC communicate. The host's half is
//!   [`Host`];
//! - `peer`: the permanent state of each peer, at most 64 bytes;
//! - `active`: the state of a peer while transfers with the peer are under way;
//! - `message`: the state of a message under way;
//! - `matching`: receives in the order of their posts, and messages that found no receive;
//! - [`engine`]: the NIC as a whole.
//!
//! `docs/research/emp.md` lists the differences from the paper.

#![forbid(unsafe_code)]

mod active;
pub mod array;
pub mod engine;
mod ids;
mod matching;
mod message;
mod peer;
pub mod wire;

pub use array::{Array, Handle, Host, Misuse, Outcome, Piece, PostError, Status};
pub use engine::{Config, Counters, Engine, Io, Memory, Sink};
pub use peer::Peer;

/// The number of a node: its position in the table of a station.
pub type Node = u16;

/// In a receive: any node.
pub const ANY_NODE: Node = Node::MAX;
