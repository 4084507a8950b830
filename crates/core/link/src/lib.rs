//! Reliable delivery over any packet network: the layer between a software NIC's work queues and a wire.
//!
//! This crate does no I/O, reads no clock and starts no thread. A *port* drives the crate. The port passes in received
//! frames with the time, sends outgoing frames, and calls again when a deadline has come. The simulator (`via-sim`) and
//! the agent's Unix datagrams are two ports.
//!
//! - [`wire`]: frames as bytes. The parser checks every field once;
//! - [`stream`]: items in order and exactly once: numbers, acknowledgements, retransmission, the measured round trip;
//! - [`buffers`]: buffers of outgoing messages;
//! - [`message`], [`datagram`]: messages in parts, of reliable and of unreliable connections;
//! - [`channel`]: all of these combined into messages between two ends. A port can use a channel directly.
//!
//! # What stays with the provider
//!
//! Work queues, RDMA, completion queues and the rendezvous of VIs are above this crate, in `softnic`. All VIs of the
//! network are under one lock and find each other by number. For example, a completion may break another VI's
//! connection. So VIs share state rather than messages. The frames between VIs are defined here ([`wire::Item`],
//! [`wire::Meeting`]), and a provider for Ethernet uses the same format.

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
