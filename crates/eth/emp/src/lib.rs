//! EMP between hosts: a [`Station`] is a node's end. Its NIC is a thread, which owns a port and runs `sovia-emp`'s engine.
//!
//! A program posts sends and receives, and asks for each whether it has ended. Between the two no call is needed: the NIC
//! sends, receives into the program's memory, acknowledges and sends again by itself. Host and NIC share the descriptors and
//! nothing else.
//!
//! **Which thread makes progress.** With [`Mode::Thread`], as in the paper, the NIC's thread alone, which is to have a processor of its own:
//! it looks for posts and frames all the time, and sleeps when there have been none for a while. With [`Mode::Calls`] the calls that
//! post, test and wait do the NIC's work, and its thread looks after what comes while the program does something else: that is
//! better where there is no processor to spare.
//!
//! - `whereabouts`: addresses in 24 bytes;
//! - `memory`: the program's memory, as posted pieces name it. All unsafe code but the posts' contracts is there;
//! - `config`: what a station is like;
//! - `nic`: the engine with its port;
//! - `shared`: what host and NIC share, and who sleeps where;
//! - `thread`: the NIC's thread;
//! - `station`: what a program holds in its hands.

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
