//! A deterministic network in one process: nodes, links with faults, virtual time.
//!
//! A [`Net`] is a queue of events in virtual time. Its user sends packets and sets timers, and
//! takes one event after the other with [`Net::step`]; nothing happens in between. Which packets
//! are lost, duplicated, damaged, delayed or overtaken is drawn from a seed, so that the same
//! calls with the same seed give the same events. [`Net::log`] is a fingerprint of them, to
//! compare two runs by.
//!
//! There is no thread, no clock and no I/O in here, and nothing of what the packets mean.

#![forbid(unsafe_code)]

mod dice;
mod faults;
mod link;
mod log;
mod net;
mod node;
mod queue;
mod time;

pub use faults::Change;
pub use link::Link;
pub use log::Log;
pub use net::{Counters, Delivery, Event, Net};
pub use node::NodeId;
pub use time::Time;
