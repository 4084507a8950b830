//! A VI provider between hosts: the NIC in software of `sovia-softnic`, on a port that moves frames in real time.
//!
//! [`Config::open`] opens an [`EthNic`] with its own port. The NIC's VIA address is the address of the port. For an
//! Ethernet card, these are six bytes, and for UDP the bytes of the Internet address and the port number. If the port
//! is at an agent, NICs of other processes have the same address. They differ in the discriminators at which they
//! listen, and in the names of connections' ends. The agent chooses the first bits of these names.
//!
//! - `config`: the configuration of a NIC; `station`: addresses of peers;
//! - `listening`: the discriminators at which the program listens;
//! - `ether`: a port, the clock and the timers, as the engine's medium;
//! - `sovia-drive`: chooses the thread that makes progress;
//! - `nic`: the types for programs.
//!
//! # Frames of other stations
//!
//! Any station that can reach the port can send frames. The engine accepts only frames that come from the address of a
//! connection's other end and name both ends. The names are random numbers of 64 bits. The engine drops and counts all
//! other frames ([`counters`]). Frames are neither encrypted nor signed, so a station that can read the traffic can
//! forge frames.
//!
//! # Loss of the network
//!
//! When the port's device or agent is gone, all connections are lost, all requests end, and the NIC makes no new
//! connections. A program can open another NIC at the same place when the device or agent is back.
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
