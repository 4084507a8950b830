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
//! - `state`: what is under the NIC's lock, and how it goes on;
//! - `watch`: sleeping on the port's descriptors; `shared`: the lock, and what its users owe each other;
//! - `thread`: the NIC's own thread; `wire`: calls of the program's that look or wait;
//! - `nic`: what a program holds in its hands; `registry`: the NICs of this process.
//!
//! # Which thread makes progress
//!
//! Any thread that looks for a completion or waits for one takes what the port has. A thread that waits spins for a little and
//! then sleeps on the port's descriptors until the next deadline, as the *watcher*: there is one at a time, and other threads
//! that wait sleep until the watcher has news for them, or leaves and one of them takes its place. While no thread of the
//! program does any of this, the NIC's own thread watches: RDMA and acknowledgements need no call of the program's. While they
//! do, it looks in only now and then, and not at all while one of them sleeps as the watcher. Where nothing happens, nothing
//! runs. A thread that waits for a request for a connection watches only while no other one waits: it would otherwise wake
//! the others for each frame.
//!
//! # Strangers
//!
//! Whoever can send to the port can send frames. The engine takes those only that come from the address of a connection's other
//! end and name both ends, whose names are random numbers of 64 bits; the others are dropped and counted ([`Wire::counters`]).
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
mod registry;
mod shared;
mod state;
mod station;
mod thread;
mod wire;

pub use config::{Config, OpenError};
pub use nic::{EthConnection, EthCq, EthNic, EthVi, Listener};
pub use sovia_link::Control;
pub use sovia_port::impair::Faults;
pub use sovia_port::{BadPlace, Place};
pub use station::{BadStation, Station};
pub use wire::{Counters, Wire};
