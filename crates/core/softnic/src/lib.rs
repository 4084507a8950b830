//! A NIC in software, over any network.
//!
//! This crate implements work queues, messages in parts, RDMA, completion queues, the reliability levels, and the
//! rendezvous of VIs and peers. The crate depends neither on the network that carries its frames nor on a clock. A
//! provider supplies two things:
//!
//! - a [`Medium`]: the time, timers, sending frames to a node, and the node of an address. The simulator's medium is a
//!   deterministic network. Ethernet's medium is a port on a socket or a card;
//! - a [`Driver`]: it holds the [`World`] under its lock, passes in arriving frames and due timers, and makes progress
//!   while a thread waits.
//!
//! Both are type parameters, so the data path calls no function through a pointer.
//!
//! - `medium`, `driver`, `config`: the provider's parts and settings;
//! - `world`: all state, under one lock;
//! - `engine`: the work of VIs, connections and completion queues; `meeting`: the rendezvous; `events`: dispatches
//!   frames and timers;
//! - [`moving`]: long messages, which a medium may move itself;
//! - `path_mtu`: the length of frames that a path takes;
//! - `card`, `access`, `recent`, `pins`: a NIC's memory, the way from a descriptor to memory, and locked pages;
//!   `source`: outgoing bytes in that memory;
//! - `nic`, `vi`, `connection`, `cq`: the types that a program uses.
//!
//! `tests/layers.rs` states the allowed imports between modules. `engine` and `meeting` call each other through methods
//! of the world. For example, an answer to a request connects a VI, and disconnecting a VI ends its request.
//!
//! # Which frames are believed
//!
//! The crate checks each frame once, when it arrives ([`World::frame`]). A frame about a connection counts only if it
//! comes from the node of the peer and names both ends correctly. A frame about a request counts only if it comes from
//! the node of the requester or of the acceptor. All other frames are dropped and counted ([`Counters`]). The medium
//! chooses the names of ends ([`Medium::name`]). Where unknown nodes can send frames, names must be random. Then a
//! frame of an old connection never counts as a frame of another connection.

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
mod medium;
mod meeting;
pub mod moving;
mod nic;
mod path_mtu;
mod pins;
mod recent;
mod registered;
mod source;
mod table;
mod vi;
mod world;

pub use card::Description;
pub use config::Config;
pub use connection::{Listener, SoftConnection};
pub use cq::SoftCq;
pub use driver::Driver;
pub use medium::{Deadline, Medium, Timer};
pub use nic::SoftNic;
pub use pins::{Pinned, Pinner};
pub use vi::SoftVi;
pub use world::{Callback, Counters, World};
