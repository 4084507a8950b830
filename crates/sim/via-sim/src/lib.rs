//! A VI provider on a deterministic network in one process.
//!
//! A [`Network`] has virtual time, a seed and faults. Its NICs ([`SimNic`]) implement all of VIA: three reliability
//! levels, RDMA, completion queues, and both kinds of connections. The provider serves to check protocols and to study
//! scale. A failure found with a seed can be reproduced with this seed.
//!
//! The engine of `sovia-softnic` implements the NICs. This crate has the layers below and above that engine:
//!
//! - `port`: the network as the engine's medium, with virtual time, and the network's nodes;
//! - `network`, `driver`: the passing of time ([`Clock`]);
//! - `nic`: types for programs.
//!
//! `tests/layers.rs` checks which module may import which.
//!
//! Below `network` no code waits, and all time-outs use virtual time. Only the deadlines of waiting calls may be real
//! time ([`Clock::Live`]).

#![forbid(unsafe_code)]

mod config;
mod driver;
mod network;
mod nic;
mod port;

pub use config::{Clock, Config, Registering};
pub use network::Network;
pub use nic::{Listener, SimConnection, SimCq, SimNic, SimVi};
pub use sovia_link::stream::Control;
pub use sovia_simnet::{Cable, Change, Counters, Fabric, Link, Log, NodeId, Part, Queueing, Time};
pub use sovia_softnic::{Pinned, Pinner};
