//! Reliable delivery over any network of packets: what a NIC in software needs between its work queues and a wire.
//!
//! Nothing in here does I/O, reads a clock or starts a thread. A *port* drives it: it hands in the frames that have
//! come, with the time, sends the frames that come out, and calls again when a deadline has come. The simulator
//! (`via-sim`) is one port, the agent's Unix datagrams are another.
//!
//! - [`wire`]: frames as bytes, with everything in them checked once;
//! - [`stream`]: items in order and exactly once: numbers, acknowledgements, retransmission, the measured round
//!   trip;
//! - [`buffers`]: buffers of messages that are sent;
//! - [`message`], [`datagram`]: messages in parts, of reliable and of unreliable connections;
//! - [`channel`]: all of it together, as messages between two ends that a port can use as it is.
//!
//! # What stays with the provider
//!
//! Work queues, RDMA, completion queues and the meeting of VIs are above this crate, in `via-sim`. They run under
//! one lock over all VIs of the network and find each other there by number (a completion may break another VI's
//! connection, an answer may connect a VI that a third one has found), so that what they share is that state and not
//! the network. What they say to each other is here ([`wire::Item`], [`wire::Meeting`]): a provider for Ethernet
//! speaks the same format.

#![forbid(unsafe_code)]

pub mod buffers;
pub mod channel;
mod checksum;
pub mod datagram;
pub mod message;
mod sequence;
pub mod stream;
mod time;
pub mod wire;

pub use channel::{Channel, Config, Event, Full};
pub use stream::Control;
pub use time::Time;
pub use wire::Malformed;
