//! A VI provider on a deterministic network in one process.
//!
//! A [`Network`] has virtual time, a seed and faults; its NICs ([`SimNic`]) do everything that
//! VIA knows: three reliability levels, RDMA, completion queues, connections of both kinds. It is
//! there to prove protocols and to study scale: a failure found with a seed comes back with it.
//!
//! What its NICs do is the engine's of `sovia-softnic`; here is what that engine stands on:
//!
//! - `port`: the network as the engine's medium, with virtual time, and the network's nodes;
//! - `network`, `driver`: what makes time pass ([`Clock`]);
//! - `nic`: what a program holds in its hands.
//!
//! `tests/layers.rs` says which module may import which.
//!
//! Below `network` nothing waits, and nothing but the virtual time tells what is late; only the
//! deadlines of waiting calls may be real ([`Clock::Live`]).

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
