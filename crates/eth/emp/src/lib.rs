//! EMP between hosts. A [`Station`] is the end of a node. Its NIC is a thread, which owns a port and runs the engine of
//! `sovia-emp`.
//!
//! A program posts sends and receives, and later asks if each has ended. In between, no call is needed: the NIC sends
//! and retransmits, receives into the program's memory and acknowledges. Host and NIC share only the descriptors.
//!
//! **Which thread makes progress.** With [`Mode::Thread`], as in the paper, only the NIC's thread makes progress, and
//! should have its own processor. It polls for posts and frames, and sleeps after an idle time. With [`Mode::Calls`],
//! the calls that post, test and wait do the NIC's work. The NIC's thread handles frames while the program does other
//! work. This mode is better if no processor is spare.
//!
//! - `whereabouts`: addresses in 24 bytes;
//! - `memory`: access to the program's memory. It contains all unsafe code except the contracts of the posts;
//! - `config`: the configuration of a station;
//! - `nic`: the engine and its port;
//! - `shared`: data that host and NIC share, and the threads' sleep;
//! - `thread`: the NIC's thread;
//! - `station`: the interface for programs.

mod config;
mod memory;
mod nic;
mod shared;
mod station;
mod thread;
mod whereabouts;

pub use config::{Config, Mode, OpenError};
pub use sovia_emp::array::{CHAIN_PIECES, DESCRIPTORS, MESSAGE_MAX, PAGE_PIECES, PIECE_MAX};
pub use sovia_emp::{ANY_NODE, Handle, Misuse, Node, Outcome, Piece, PostError, Status};
pub use sovia_port::{Address, Place};
pub use station::{AddError, Counters, Station};
pub use whereabouts::Whereabouts;
