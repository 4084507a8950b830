//! Networks with switches: what they are made of, and what becomes of a packet on its way through one.
//!
//! - `plan`: what a fabric is like, as its user says it;
//! - `port`: one direction of a cable, with the queue of packets that wait for it;
//! - `switches`: all ports of a fabric, the way of a packet from port to port, and what has failed.

mod plan;
mod port;
mod switches;

pub use plan::{Cable, Fabric, Part};
pub use port::Queueing;
pub(crate) use switches::{Fate, Hop, Switches};
