//! Access to the engine: finds the connections that the engine serves, and makes the kernel's calls for it.
//!
//! The engine has a connection on record for each descriptor that it serves. In a process under `sovia run` this copy
//! of the engine has no records. There the preloaded library has the records, and std's calls reach the preloaded
//! library.

use libc::c_int;
use sovia_sockets::Outcome;
use sovia_sockets::conn::Role;
use sovia_sockets::native::{self, Engine};
use sovia_sockets::rendezvous::Server;
use sovia_sockets::table::{self, Ref};
use sovia_sockets::{Errno, ops};
use std::io;

/// Returns the connection that the engine has on record for a descriptor.
#[inline]
pub(crate) fn conn(fd: c_int) -> Option<Ref> {
    table::conn(fd)
}

/// Puts a new connection on record, if this copy of the engine serves the process.
pub(crate) fn record(fd: c_int, role: Role) {
    if let Engine::Own = native::engine() {
        ops::opened(fd, role, Server::Unknown);
    }
}

/// Removes a descriptor from the record. Called before the descriptor is closed.
pub(crate) fn closing(fd: c_int) {
    if native::is_own() {
        ops::close(fd);
    }
}

/// Puts a duplicate of a descriptor on record.
pub(crate) fn duplicated(fd: c_int, new: c_int) {
    if native::is_own() {
        ops::dup(fd, new);
    }
}

/// Converts a libc function's return value to the engine's type.
pub(crate) fn outcome(result: isize) -> Outcome {
    usize::try_from(result)
        .map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Converts the engine's result to the type that std uses.
#[inline]
pub(crate) fn result(outcome: Result<usize, Errno>) -> io::Result<usize> {
    outcome.map_err(io::Error::from_raw_os_error)
}
