//! A VI provider on a deterministic network in one process.
//!
//! A [`Network`] has virtual time, a seed and faults; its NICs ([`SimNic`]) do everything that
//! VIA knows: three reliability levels, RDMA, completion queues, connections of both kinds. It is
//! there to prove protocols and to study scale: a failure found with a seed comes back with it.
//!
//! - `packet`, `message`, `datagram`, `stream`: what travels, and how it is made whole again;
//! - `world`: everything there is, under one lock, and what happens to it next;
//! - `engine`: what VIs, connections and completion queues do; `meeting`: how VIs find each other;
//! - `access`, `pins`: from a descriptor to memory, and whose pages that is;
//! - `network`, `driver`: who makes time pass ([`Clock`]);
//! - `nic`, `vi`, `connection`, `cq`: what a program holds in its hands.
//!
//! Below `network` nothing waits, and nothing but the virtual time tells what is late; only the
//! deadlines of waiting calls may be real ([`Clock::Live`]).

#![forbid(unsafe_code)]

mod access;
mod config;
mod connection;
mod cq;
mod driver;
mod engine;
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
