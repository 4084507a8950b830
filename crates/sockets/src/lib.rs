//! Sockets over Virtual Interfaces.
//!
//! Every connection is, and stays, the kernel TCP connection that the program asked for: its kernel socket. This
//! crate watches stream sockets from their first byte. A rendezvous ([`rendezvous`]) finds out if the other end of the
//! connection runs under Sovia on the same host. If so, this crate moves the bytes of each direction from TCP onto
//! a VI ([`stream`]). The kernel keeps the program's descriptor numbers, names, listeners and errors.
//!
//! The modules, from the highest layer to the lowest. A module imports only modules of lower lines, or to its right in
//! its own line. `tests/layers.rs` checks this order.
//! - [`native`]: calls beyond libc's, for programs written for Sovia; `engine`: start and end of Sovia in a
//!   process.
//! - `fork`; `progress`: watches kernel sockets; `relay`: keeps a stream whose peer has left.
//! - [`pollset`]: poll and select; [`reactor`]: readiness for other event loops.
//! - [`epoll`]: the epoll calls; [`loan`]: pool slots, lent to the program.
//! - [`ops`]: one module for each family of libc calls.
//! - [`exec`]: programs that this process executes, and their connections; [`fallback`]: moves a connection from its
//!   VI back to TCP.
//! - [`rendezvous`]: how the two ends of a connection find each other and make a VI.
//! - `epoll_sets`: connections in epoll instances; `handler`: threads that handle messages; [`wait`]: waits for one
//!   connection.
//! - [`stream`]: sends and receives on TCP and on the VI.
//! - `kernel_sockets`: requests to the thread that watches kernel sockets; [`pair`]: a peer process, and the
//!   segment shared with this peer.
//! - [`config`], [`protocol`]: settings; [`other_families`]: connections that other families have sent.
//! - [`table`]: descriptors that Sovia serves; [`family`]: connections, in memory that forked processes share;
//!   [`conn`]: one connection.
//! - `closer`: closes descriptors from unknown processes; `peers`: reports deaths of peers.
//! - Modules that import no other: `process_slots` (processes of the family), [`process`], [`stats`], `thread`. Also
//!   `memory` (registered for sends), `message` (of a rendezvous), `passed_on` (connections sent to other
//!   processes).
//!
//! This crate calls no libc function that Sovia interposes. Its system calls go straight to the kernel (`sovia-sys`).

// Lets modules name `sovia_sync` as `sovia_sys`. `sovia_sync` has the locks, and exports the system calls again.
extern crate sovia_sync as sovia_sys;

mod agents;
mod backlog;
mod closer;
pub mod config;
pub mod conn;
pub mod credentials;
mod engine;
pub mod epoll;
mod epoll_sets;
pub mod exec;
pub mod fallback;
pub mod family;
mod filters;
pub mod fork;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod keepalive;
mod kernel_sockets;
mod linger;
pub mod loan;
mod memory;
mod message;
pub mod native;
pub mod ops;
pub mod options;
pub mod other_families;
pub mod pair;
mod passed_on;
mod peers;
mod per_engine;
pub mod pollset;
pub mod process;
mod process_slots;
mod progress;
pub mod protocol;
pub mod reactor;
mod relay;
pub mod rendezvous;
pub mod stats;
pub mod stream;
pub mod table;
mod tcp_reasons;
mod thread;
pub mod wait;

pub use engine::{finish, join, start, stay_out, thread_leaves};

/// An errno value, as the program will find it in `errno`.
pub type Errno = i32;

/// Result of a call, as the program will see it.
pub type Outcome = Result<usize, Errno>;

pub(crate) fn errno(e: sovia_sys::Errno) -> Errno {
    e.into_raw()
}

/// Returns this process's id. Asks the kernel.
pub fn process_id() -> i32 {
    sovia_sys::call::getpid()
}
