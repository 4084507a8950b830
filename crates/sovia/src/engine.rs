//! The way to the engine: which calls it serves, and how it makes the kernel's.
//!
//! A descriptor is on the engine's record or it is not. In a process under `sovia run` none ever is:
//! the preloaded library has its own records, and std's calls reach it.

use libc::c_int;
use sovia_sockets::Outcome;
use sovia_sockets::conn::Role;
use sovia_sockets::meeting::Server;
use sovia_sockets::native::{self, Engine};
use sovia_sockets::table::{self, Ref};
use sovia_sockets::{Errno, ops};
use std::io;

/// The connection on record behind a descriptor.
#[inline]
pub(crate) fn conn(fd: c_int) -> Option<Ref> {
    table::conn(fd)
}

/// Puts a fresh connection on record, if this copy of the engine is the process's.
pub(crate) fn record(fd: c_int, role: Role) {
    if let Engine::Own = native::engine() {
        ops::opened(fd, role, Server::Unknown);
    }
}

/// A descriptor is about to be closed.
pub(crate) fn closing(fd: c_int) {
    if native::is_own() {
        ops::close(fd);
    }
}

/// A descriptor has been duplicated.
pub(crate) fn duplicated(fd: c_int, new: c_int) {
    if native::is_own() {
        ops::dup(fd, new);
    }
}

/// A libc function's return value as the engine wants it.
pub(crate) fn outcome(result: isize) -> Outcome {
    usize::try_from(result)
        .map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// The engine's answer as std would give it.
#[inline]
pub(crate) fn result(outcome: Result<usize, Errno>) -> io::Result<usize> {
    outcome.map_err(io::Error::from_raw_os_error)
}
