//! Running ends, nodes and network.
//!
//! - `end`: one end of a stream, with the messages that it sends and receives;
//! - `node`: a node's network card: a short ring of frames, and the ends that wait for room in it;
//! - `world`: all of them on the network, from the first event to the last.

mod end;
mod node;
mod world;

pub use world::run;
