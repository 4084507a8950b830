//! The provider of Virtual Interfaces on RDMA verbs.
//!
//! A VI is a reliable-connected queue pair, which exists while the VI is connected. The VI's receives, sends and RDMA
//! operations are requests of the pair. The NIC moves the bytes from memory to memory. The NIC does not retry a message
//! without a posted receive: such a message breaks its VI. Memory that a program registers is registered with the NIC,
//! in a protection domain for each protection tag.
//!
//! Two kinds of messages have no place in verbs. They are the key of a region for RDMA, and the reason why a connection
//! ends. They travel beside the connections, as questions of the connection manager with one answer each. [`wire`] has
//! their formats.
//!
//! Each thread that polls or waits polls its own VI. A NIC has one thread. It connects VIs, answers questions, wakes
//! sleeping threads, and completes descriptors for callbacks.
//!
//! rdma-core's libraries are loaded when the program opens the first NIC.

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
