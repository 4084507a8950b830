//! SOVIA's protocol between the two ends of a VI, as state machines without I/O, clock or thread.
//!
//! - [`packet`]: the kinds of packets, and the 32 bits of immediate data that carry a packet's kind.
//! - [`flow`]: the sliding window, and acknowledgements that are counted and piggybacked.
//! - [`order`]: bytes that the sender coalesces while the window is used up, and their position in the stream.
//! - [`path`]: the carrier of each direction's bytes, which is kernel TCP or the VI. Also the change from one
//!   carrier to the other, at a position in the stream that both ends know. [`word`]: the words of shared memory
//!   through which the two ends exchange these decisions.
//! - [`close`]: FIN and FINACK.
//! - [`failover`]: the move to TCP after the carrier of the VI has died.
//! - [`filters`]: packets that packet filters may block.
//! - [`rendezvous`]: the names of connections and processes in messages to other processes.
//! - [`agent`]: messages between a program and the agent of its host.
//!
//! The following modules form a whole stream over a VI, in every configuration of the papers:
//!
//! - [`configuration`]: a stream's settings, with the papers' names and a text form.
//! - [`state`]: the state diagram (ICS figure 11) as a declared table.
//! - [`wakeup`]: the contents of a WAKEUP packet, by which two ends agree on their settings.
//! - [`combining`]: the policy by which small messages wait for further messages, to share a packet.
//! - [`session`]: one end's whole protocol, made of the modules above.
//!
//! Papers: SOVIA, ICS 2001, sections 4.1 to 4.3 (cited below as ICS); SOVIA, CLUSTER 2001.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod agent;
pub mod close;
pub mod combining;
pub mod configuration;
pub mod failover;
pub mod filters;
pub mod flow;
pub mod order;
pub mod packet;
pub mod path;
pub mod rendezvous;
pub mod session;
pub mod state;
pub mod wakeup;
pub mod word;

/// The peer broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation(pub &'static str);

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the peer broke the protocol: {}", self.0)
    }
}

impl core::error::Error for Violation {}
