//! Chooses the thread that drives a NIC in software, on any medium that threads poll and sleep on.
//!
//! Each thread that looks for a completion, or waits for one, handles the medium's frames. A waiting thread polls for a
//! short time. Then it sleeps on the medium's descriptors until the next deadline, as the *watcher*. Only one thread at
//! a time is the watcher. Other waiting threads sleep until the watcher has events for them, or until the watcher
//! leaves and one of them replaces it.
//!
//! While no thread of the program drives, the NIC's own thread watches, so RDMA and acknowledgements need no call of
//! the program. While threads of the program drive, the NIC's own thread looks only now and then. While one of them is
//! the watcher, the NIC's own thread sleeps. When nothing happens, no thread runs. A thread that waits for a connection
//! request watches only while no other thread waits. Otherwise it would wake the other threads for each frame.
//!
//! - `driven`: the trait of a medium; `clock`: time and timers, for a medium;
//! - `state`: the state under the NIC's lock, and its progress;
//! - `shared`: the lock, and the wake-ups between its users;
//! - `thread`: the NIC's own thread; `wire`: the program's calls that look or wait;
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
