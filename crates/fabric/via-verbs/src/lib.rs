//! The provider of Virtual Interfaces on RDMA verbs.
//!
//! A VI is a reliable-connected queue pair, which exists while the VI is connected: its receives are posted to the pair, its
//! sends and RDMAs are the pair's requests, and the NIC moves the bytes from memory to memory. A message that meets no posted receive
//! is not tried again: it breaks its VI. What a program has registered is registered with the NIC, in a protection domain for
//! each tag.
//!
//! What verbs have no place for travels beside the connections, as questions of the connection manager, each with one
//! answer: under which key a region may be written or read, and why a connection ends. [`wire`] has what is said.
//!
//! Each thread that looks or waits polls its own VI. A NIC has one thread, which connects VIs, answers questions, and wakes
//! threads that sleep and runs what waits for a callback.
//!
//! The libraries of rdma-core are loaded when the first NIC is opened.

#![forbid(unsafe_code)]

mod access;
mod agent;
mod config;
mod connection;
mod cq;
mod engine;
mod nic;
mod open;
mod regions;
mod slot;
mod state;
mod vi;
pub mod wire;

pub use config::{Config, OpenError};
pub use connection::VerbsConnection;
pub use cq::VerbsCq;
pub use nic::VerbsNic;
pub use vi::VerbsVi;
