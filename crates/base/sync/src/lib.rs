//! What threads, of one process or of several that share memory, agree by.
//!
//! - [`lock`]: a lock word that survives its owner; [`value`]: a value behind one;
//! - [`biased`]: a lock that leans towards the thread that uses it;
//! - [`rank`]: the order of locks, which debug builds assert;
//! - [`section`]: whether the calling thread is inside one of Sovia's critical sections;
//! - [`record`]: which threads live, as the kernel tells it (`robust_list`);
//! - [`fences`]: fences that the kernel puts into other threads;
//! - [`hazard`]: what threads use without a lock;
//! - [`presence`]: which threads are inside something that must not change under them;
//! - [`once`]: a thread that each process has once;
//! - [`thread`]: what identifies the calling thread; `state`: its words, in one place;
//! - `shim`: the machine's atomics, or loom's.
//!
//! Nothing here calls a libc function that Sovia interposes; system calls go through `sovia-sys`.

pub mod biased;
pub mod fences;
pub mod hazard;
pub mod lock;
pub mod once;
mod owners;
pub mod presence;
pub mod rank;
pub mod record;
#[allow(unreachable_pub, reason = "an entry is part of a public table, and opaque")]
mod robust_list;
pub mod section;
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

/// System calls, under the same roof as the locks: see the root of `sovia-sockets`.
#[doc(hidden)]
pub use sovia_sys::*;
