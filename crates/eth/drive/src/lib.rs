//! Which thread drives a NIC in software, on any medium that is looked at and slept on.
//!
//! Any thread that looks for a completion or waits for one takes what the medium has. A thread that waits spins for a little and
//! then sleeps on the medium's descriptors until the next deadline, as the *watcher*: there is one at a time, and other threads
//! that wait sleep until the watcher has news for them, or leaves and one of them takes its place. While no thread of the
//! program does any of this, the NIC's own thread watches: RDMA and acknowledgements need no call of the program's. While they
//! do, it looks in only now and then, and not at all while one of them sleeps as the watcher. Where nothing happens, nothing
//! runs. A thread that waits for a request for a connection watches only while no other one waits: it would otherwise wake
//! the others for each frame.
//!
//! - `driven`: what a medium does for its driver; `clock`: the time and the timers, for a medium;
//! - `state`: what is under the NIC's lock, and how it goes on;
//! - `shared`: the lock, and what its users owe each other;
//! - `thread`: the NIC's own thread; `wire`: calls of the program's that look or wait;
//! - `registry`: the NICs of this process.

#![forbid(unsafe_code)]

mod clock;
mod driven;
mod registry;
mod shared;
mod state;
mod thread;
mod wire;

pub use clock::Clock;
pub use driven::Driven;
pub use registry::Registry;
pub use sovia_port::Descriptors;
pub use sovia_port::watch::Terms;
pub use wire::{WeakWire, Wire};
