//! A VI provider on libfabric: on each provider of libfabric with reliable datagram endpoints and reads of remote
//! memory.
//!
//! A NIC is one endpoint. `sovia-softnic` implements the VIs. libfabric carries their frames, and moves long messages
//! from the sender's registered memory to the receiver's without a copy (`sovia_softnic::moving`):
//!
//! 1. The sender announces a message.
//! 2. When the message meets a receive, the receiver says that it is ready.
//! 3. The sender lends the message's memory under a new key.
//! 4. The receiver fetches the bytes (`moves`).
//!
//! So the receiver decides whether a message breaks its VI because it has no receive, in the order of arrival. A peer
//! gets keys only to bytes that are sent to it. The target checks each RDMA write or read against handle, tag, range
//! and rights at that moment.
//!
//! libfabric is loaded when the first NIC is opened. Without libfabric the opening fails with an error.
//!
//! - `place`: places of NICs; `message`: messages between NICs; `nodes`: the known peers;
//! - `fabric`: the endpoint as the medium of the engine; `arrivals`: its events; `moves`, `exchange`: long messages;
//! - `alive`: greetings, by which the NIC notices lost peers; `doubts`, `asking`, `presence`: checks whether a peer
//!   exists;
//! - `config`: opening a NIC; `nic`: types for programs.
//!
//! `sovia-drive` chooses the thread that makes progress. Some providers make progress only when such a thread polls. If
//! a provider has no descriptor to sleep on, the thread polls after sleeps of up to a millisecond.
//!
//! # Trust
//!
//! A message names its sender by a random number, which the sender has sent with its address. Names of connections'
//! ends and tags are random as well. A message with unknown names is dropped and counted. Like the network below, this
//! protocol is neither encrypted nor signed.
//!
//! # Fork
//!
//! A NIC belongs to the process that opened it. A forked child must not use its copy.

#![forbid(unsafe_code)]

mod alive;
mod arrivals;
mod asking;
mod config;
mod doubts;
mod exchange;
mod fabric;
mod message;
mod moves;
mod nic;
mod nodes;
mod place;
mod presence;

pub use config::{Config, OpenError};
pub use fabric::Fabric;
pub use nic::{Counts, OfiConnection, OfiCq, OfiNic, OfiVi, counts};
pub use nodes::Node;
pub use place::{BadPlace, Place};
