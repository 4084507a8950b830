//! What threads, of one process or of several that share memory, agree by.
//!
//! - [`lock`]: a lock word that survives its owner; [`value`]: a value behind one;
//! - [`section`]: whether the calling thread is inside one of Sovia's critical sections;
//! - [`record`]: which threads live, as the kernel tells it (`robust_list`);
//! - [`hazard`]: what threads use without a lock;
//! - [`once`]: a thread that each process has once;
//! - [`thread`]: what identifies the calling thread; `state`: its words, in one place;
//! - `shim`: the machine's atomics, or loom's.
//!
//! # The order of locks
//!
//! A thread that holds one lock takes another one only if it stands further down here; a fork takes those
//! of the process in this order:
//!
//! 1. the meetings, the reactor, the epoll sets;
//! 2. a connection (never two): an epoll set looks at its connections under its own lock;
//! 3. the start of a thread ([`OncePerProcess`]), what the handlers' threads serve;
//! 4. the table of pairs, and what has left it;
//! 5. what is to be closed, what is kept for calls that go on, what is lent;
//! 6. what is used by threads that have no word for it ([`hazard`]).
//!
//! Nothing asserts it yet.
//!
//! Nothing here calls a libc function that Sovia interposes; system calls go through `sovia-sys`.

pub mod hazard;
pub mod lock;
pub mod once;
pub mod record;
#[allow(unreachable_pub, reason = "an entry is part of a public table, and opaque")]
mod robust_list;
pub mod section;
mod shim;
pub mod state;
pub mod thread;
pub mod value;

pub use lock::{Acquired, Family, Held, Local, RobustLock};
pub use once::OncePerProcess;
pub use value::RobustBox;

/// System calls, under the same roof as the locks: see the root of `sovia-sockets`.
#[doc(hidden)]
pub use sovia_sys::*;
