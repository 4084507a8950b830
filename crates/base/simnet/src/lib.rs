//! A deterministic network in one process: nodes, links with faults, virtual time.
//!
//! Nodes are joined in one of two ways. Either each pair has a [`Link`] of its own. Or all nodes are joined by a
//! [`Fabric`] of switches, whose queues they share and can overflow.
//!
//! A [`Net`] is a queue of events in virtual time. Its user sends packets, sets timers, and takes one event after the
//! other with [`Net::step`]. Nothing happens between two steps. A seed decides which packets are lost, duplicated,
//! corrupt, delayed or overtaken. So the same calls with the same seed give the same events. [`Net::log`] is a
//! fingerprint of the events, to compare two runs.
//!
//! The crate has no threads, clock or I/O, and does not interpret packets.

#![forbid(unsafe_code)]

mod dice;
mod fabric;
mod faults;
mod link;
mod log;
mod net;
mod node;
mod queue;
mod time;

pub use fabric::{Cable, Fabric, Part, Queueing};
pub use faults::Change;
pub use link::Link;
pub use log::Log;
pub use net::{Counters, Delivery, Event, Net};
pub use node::NodeId;
pub use time::Time;
