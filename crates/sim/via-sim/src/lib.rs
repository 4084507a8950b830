//! A VI provider on a deterministic network in one process.
//!
//! A [`Network`] has virtual time, a seed and faults; its NICs ([`SimNic`]) do everything that
//! VIA knows: three reliability levels, RDMA, completion queues, connections of both kinds. It is
//! there to prove protocols and to study scale: a failure found with a seed comes back with it.
//!
//! - `port`: the network as a port of `sovia-link`, whose frames travel on it and whose streams make them reliable;
//! - `world`: the state of everything there is, under one lock;
//! - `engine`: what VIs, connections and completion queues do; `meeting`: how VIs find each other; `events`: which of
//!   it happens next;
//! - `card`, `access`, `pins`: a NIC's memory; from a descriptor to memory, and whose pages that is;
//! - `network`, `driver`: what makes time pass ([`Clock`]);
//! - `nic`, `vi`, `connection`, `cq`: what a program holds in its hands.
//!
//! `tests/layers.rs` says which module may import which. `engine` and `meeting` call each other through methods of the
//! world: a request that is answered connects a VI, and a VI that is disconnected ends its request.
//!
//! Below `network` nothing waits, and nothing but the virtual time tells what is late; only the
//! deadlines of waiting calls may be real ([`Clock::Live`]).

#![forbid(unsafe_code)]

mod access;
mod card;
mod config;
mod connection;
mod cq;
mod driver;
mod engine;
mod events;
mod ids;
mod meeting;
mod network;
mod nic;
mod pins;
mod port;
mod vi;
mod world;

pub use config::{Clock, Config, Registering};
pub use connection::{Listener, SimConnection};
pub use cq::SimCq;
pub use network::Network;
pub use nic::SimNic;
pub use pins::{Pinned, Pinner};
pub use sovia_simnet::{Change, Counters, Link, Log, NodeId, Time};
pub use vi::SimVi;
