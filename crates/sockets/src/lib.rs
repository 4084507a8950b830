//! Sockets over Virtual Interfaces.
//!
//! Every connection is, and stays, the kernel TCP connection that the program asked for: its
//! kernel socket. This crate watches stream sockets from their first byte, finds out whether the other
//! end runs under Sovia on the same host ([`meeting`]), and if so moves the bytes of either
//! direction onto a VI ([`stream`]). The program's descriptor numbers, names, listeners and
//! errors stay the kernel's.
//!
//! From the top down; each module imports only modules of lines below its own, or to its right, which
//! `tests/layers.rs` sees to:
//! - [`native`]: what programs written for Sovia ask beyond libc's calls; `engine`: start and end;
//! - `fork`; `progress`: the thread that watches kernel sockets; `relay`: keeps a stream whose peer has left;
//!   `keeper`: holds what is unread of one that several processes may read;
//! - [`pollset`]: poll and select; [`reactor`]: readiness for other event loops;
//! - [`epoll`]: its calls; [`loan`]: places in the pools, lent to the program;
//! - [`ops`]: what each family of libc calls does with a descriptor that is ours;
//! - [`fallback`]: back to TCP;
//! - [`meeting`]: how the two ends find each other, and a connection gets its VI;
//! - `sets`: what is in epoll instances; `handler`: threads that handle messages; [`wait`]: for one
//!   connection;
//! - [`stream`]: sending and receiving on the two paths;
//! - `kernel_sockets`: what is asked of the thread that watches them; [`pair`]: the other process, and the
//!   segment shared with it;
//! - [`config`], [`protocol`]: what is chosen; `rest`: where a keeper has what is unread;
//! - [`table`]: which descriptors are ours; [`family`]: connections, in memory that forked processes
//!   share; [`conn`]: one of them;
//! - `closer`: closes what strangers send to the meeting point; `peers`: what tells of deaths;
//! - what stands alone: `members` (which of the family live), [`process`], [`stats`], `memory`
//!   (registered for sends), `message` (at meetings), `passed_on` (connections that have been sent to other processes),
//!   `thread`.
//!
//! Nothing here calls a libc function that Sovia interposes; system calls go straight to the
//! kernel (`sovia-sys`).

// Modules that name `sovia_sys` find system calls and locks there: the locks have moved to `sovia_sync`,
// which passes the rest on.
extern crate sovia_sync as sovia_sys;

mod agents;
mod backlog;
mod closer;
pub mod config;
pub mod conn;
pub mod credentials;
mod engine;
pub mod epoll;
pub mod fallback;
pub mod family;
mod filters;
pub mod fork;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod handler;
pub mod inheritance;
mod keepalive;
mod keeper;
mod kept;
mod kernel_sockets;
mod linger;
pub mod loan;
pub mod meeting;
mod members;
mod memory;
mod message;
pub mod native;
pub mod ops;
pub mod options;
pub mod pair;
mod passed_on;
mod peers;
mod per_engine;
pub mod pollset;
pub mod process;
mod progress;
pub mod protocol;
pub mod reactor;
mod relay;
mod rest;
mod sets;
pub mod stats;
pub mod stream;
pub mod table;
mod thread;
pub mod wait;

pub use engine::{finish, start, stay_out, thread_leaves};

/// An errno value: what the program will find in `errno`.
pub type Errno = i32;

/// The result of a call in the program's terms.
pub type Outcome = Result<usize, Errno>;

pub(crate) fn errno(e: sovia_sys::Errno) -> Errno {
    e.into_raw()
}

/// This process's id, fresh from the kernel.
pub fn process_id() -> i32 {
    sovia_sys::call::getpid()
}
