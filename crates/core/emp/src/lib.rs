//! EMP's NIC (Shivam, Wyckoff, Panda: "EMP: Zero-copy OS-bypass NIC-driven Gigabit Ethernet Message Passing", SC 2001):
//! messages with tags between nodes, without connections, matched by the NIC with receives that were posted before.
//!
//! Nothing in here does I/O, reads a clock, starts a thread or reaches into a program's memory. The owner of an [`Engine`]
//! hands it frames and the time, and lends it a [`Memory`] and a [`Sink`] for each call.
//!
//! - [`wire`]: frames as bytes. They have the header of `sovia-link`'s frames, and kinds of their own;
//! - [`array`](mod@array): the 640 descriptors of 20 bytes by which host and NIC speak. The host's half is [`Host`];
//! - `peer`: what the NIC keeps of each peer at all times, 64 bytes at most;
//! - `active`: what it keeps of a peer while something is under way with it;
//! - `message`: what it keeps of a message under way;
//! - `matching`: receives in the order in which they were posted, and messages that have found none;
//! - [`engine`]: all of it together.
//!
//! `docs/develop/emp.md` says what is the paper's and what is not.

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

/// The number of a node: its place in the table of the station that uses it.
pub type Node = u16;

/// Any node, of a receive.
pub const ANY_NODE: Node = Node::MAX;
