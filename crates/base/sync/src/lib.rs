//! Locks and other means by which threads agree, in one process or in several that share memory.
//!
//! - [`lock`]: a lock word that survives its owner; [`value`]: a value behind such a lock;
//! - [`biased`]: a lock that is biased to the thread that takes it most;
//! - [`rank`]: the order of locks, which debug builds assert;
//! - [`critical_section`]: critical sections of the calling thread;
//! - [`robust_entry`]: robust-list entries, by which the kernel reports which threads live (`robust_list`);
//! - [`fences`]: fences that the kernel executes in other threads;
//! - [`hazard`]: objects that threads use without a lock;
//! - [`callers`]: the threads inside something that must not change meanwhile;
//! - [`once`]: a thread that exists once in each process;
//! - [`thread`]: identity of the calling thread; `state`: that thread's words, in one place;
//! - `shim`: the processor's atomics, or loom's.
//!
//! No function here calls a libc function that Sovia interposes. All system calls go through `sovia-sys`.

pub mod biased;
pub mod callers;
pub mod critical_section;
pub mod fences;
pub mod hazard;
pub mod lock;
pub mod once;
mod owners;
pub mod rank;
pub mod robust_entry;
#[allow(unreachable_pub, reason = "an entry is part of a public table, and opaque")]
mod robust_list;
mod shim;
pub mod state;
pub mod thread;
pub mod value;
mod words;

pub use biased::BiasedLock;
pub use lock::{Acquired, Held, RobustLock};
pub use once::OncePerProcess;
pub use owners::{Family, Local};
pub use value::RobustBox;

#[cfg(loom)]
pub use shim::ENDLESS;

/// Re-exports the system calls beside the locks: see the root of `sovia-sockets`.
#[doc(hidden)]
pub use sovia_sys::*;
