//! SOVIA's protocol: what two ends say to each other over a VI, as state machines without I/O,
//! clock or thread.
//!
//! - [`packet`]: the kinds of packets and the 32 bits of immediate data that carry them;
//! - [`flow`]: the sliding window and the counted, piggybacked acknowledgements;
//! - [`order`]: bytes that the window held back, and their place in the stream;
//! - [`path`]: where each direction of a stream runs, kernel TCP or the VI, and the switch between
//!   the two at an agreed byte; [`word`]: the words that carry its decisions;
//! - [`close`]: FIN and FINACK; [`failover`]: on to TCP when what carries the VI has died;
//! - [`filters`]: packets that packet filters may stop;
//! - [`meeting`]: how connections and processes are named to others.
//!
//! A stream over a VI, from its first packet to its last, in every configuration of the papers:
//!
//! - [`configuration`]: what may be chosen, with the papers' names and a text form;
//! - [`state`]: the state diagram (ICS figure 11) as a declared table;
//! - [`wakeup`]: what a WAKEUP packet says, and what two ends agree on by it;
//! - [`combining`]: the policy by which small messages wait for more;
//! - [`session`]: one end's whole protocol, of which the above are the parts.
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
pub mod meeting;
pub mod order;
pub mod packet;
pub mod path;
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
