//! What a NIC in software does, over any network.
//!
//! Work queues, messages in parts, RDMA, completion queues, the reliability levels, the meeting of VIs and peers: all
//! of it is here, once, and knows neither what carries its frames nor what its clock is. A provider brings two things:
//!
//! - a [`Medium`]: the time, timers, frames to a node, and which node an address is. The simulator's is a
//!   deterministic network, that of Ethernet a port on a socket or a card;
//! - a [`Driver`]: it holds the [`World`] under its lock, hands it the frames and timers that come, and makes progress
//!   while a thread waits.
//!
//! Both are type parameters: the data path calls no function through a pointer.
//!
//! - `medium`, `driver`, `config`: what a provider brings and says;
//! - `world`: the state of everything, under one lock;
//! - `engine`: what VIs, connections and completion queues do; `meeting`: how VIs find each other; `events`: frames and
//!   timers, to whatever they concern;
//! - [`moving`]: long messages, which a medium may move itself;
//! - `path_mtu`: how long frames to a peer may be;
//! - `card`, `access`, `recent`, `pins`: a NIC's memory; from a descriptor to memory, and whose pages that is; `source`: bytes
//!   that are sent from there;
//! - `nic`, `vi`, `connection`, `cq`: what a program holds in its hands.
//!
//! `tests/layers.rs` says which module may import which. `engine` and `meeting` call each other through methods of the
//! world: a request that is answered connects a VI, and a VI that is disconnected ends its request.
//!
//! # What is believed
//!
//! A frame is checked once, where it comes in ([`World::frame`]). What it says of a connection counts only if it comes
//! from the node of that connection's other end and names both ends rightly; what it says of a request, only if it
//! comes from the node that asks, or that is asked. All else is dropped and counted ([`Counters`]). Names of ends are
//! the medium's to choose ([`Medium::name`]): where strangers can send frames they must be random, so that no frame of
//! an older connection is taken for one of another.

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
