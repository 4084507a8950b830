//! A deterministic network in one process: nodes, links with faults, virtual time.
//!
//! Its nodes are joined in one of two ways: each two of them by a [`Link`] of their own, or all of them by a [`Fabric`] of
//! switches, whose queues they share, and which overflow.
//!
//! A [`Net`] is a queue of events in virtual time. Its user sends packets and sets timers, and
//! takes one event after the other with [`Net::step`]; nothing happens in between. Which packets
//! are lost, duplicated, corrupt, delayed or overtaken is drawn from a seed, so that the same
//! calls with the same seed give the same events. [`Net::log`] is a fingerprint of them, to
//! compare two runs by.
//!
//! There is no thread, no clock and no I/O in here, and nothing of what the packets mean.

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
