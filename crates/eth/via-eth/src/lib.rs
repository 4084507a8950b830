//! A VI provider between hosts: the NIC in software of `sovia-softnic`, on a port that moves frames in real time.
//!
//! [`EthNic`]s are opened by [`Config::open`], each with a port of its own. A NIC's address, as VIA knows it, is that of its port,
//! as bytes: six of an Ethernet card, or those of an Internet address and of a UDP port. Where the port is at an agent, NICs of other
//! processes have the same address: what tells them apart are the discriminators at which they listen, and the names of
//! connections' ends, whose first bits the agent has chosen.
//!
//! - `config`: what a NIC is like, and where it is; `station`: where others are;
//! - `listening`: at which discriminators its program listens;
//! - `ether`: a port, the clock and the timers, as the engine's medium;
//! - `sovia-drive` says which thread makes progress;
//! - `nic`: what a program holds in its hands.
//!
//! # Strangers
//!
//! Any station that can send to the port can send frames. The engine takes those only that come from the address of a connection's other
//! end and name both ends, whose names are random numbers of 64 bits; the others are dropped and counted ([`counters`]).
//! Frames are neither encrypted nor signed: who can read what travels can forge it.
//!
//! # The network goes
//!
//! Where the port is of no use any more, because its device or its agent is gone, all connections are lost and all requests over,
//! and the NIC makes none any more. Another NIC can be opened in the same place when that is there again.
//!
//! # Fork
//!
//! A NIC belongs to the process that opened it. A forked child must not use its copy.

#![forbid(unsafe_code)]

mod config;
mod ether;
mod listening;
mod nic;
mod station;

pub use config::{Config, OpenError};
pub use ether::Ether;
pub use nic::{Counters, EthConnection, EthCq, EthNic, EthVi, Listener, counters};
pub use sovia_link::Control;
pub use sovia_port::impair::Faults;
pub use sovia_port::{BadPlace, Place};
pub use station::{BadStation, Station};
