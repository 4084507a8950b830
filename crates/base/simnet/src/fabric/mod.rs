//! Networks with switches: their parts, and the path of a packet through them.
//!
//! - `plan`: the description of a fabric;
//! - `port`: one direction of a cable, with its queue of waiting packets;
//! - `switches`: all ports of a fabric, a packet's path from port to port, and failed parts.

mod plan;
mod port;
mod switches;

pub use plan::{Cable, Fabric, Part};
pub use port::Queueing;
pub(crate) use switches::{Fate, Hop, Switches};
