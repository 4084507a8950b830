//! What of the papers' table 4 connections do: chosen for the process, or for one of them.
//!
//! Unless told otherwise, messages are handled by the calling thread (SINGLE), and the NIC reads the
//! program's bytes in the call that sends them (AUTO): on a segment that both ends reach a handler's
//! thread, a registration and another copy only add to that. Everything else of table 4 can be had, but
//! the three-way handshake ([`Configuration::of_socket`]). A window that does not fit the ring with its
//! acknowledgements is made smaller.

use crate::Errno;
use crate::conn::{Choice, Conn, Phase, Protocol, translated};
use crate::per_engine::per_engine;
use crate::table;
use sovia_proto::configuration::{Configuration, SOCKETS};
use sovia_proto::flow::Parameters;

per_engine! {
    /// The process's.
    static PROCESS: Choice = Choice::nothing();
}

/// Makes a configuration that of all connections to come.
pub fn choose(configuration: &Configuration) {
    PROCESS.set(configuration);
}

/// Makes a configuration that of the connection behind `fd`.
///
/// # Errors
/// `ENOTCONN` if that is none, or on TCP for good; `EISCONN` if it has its VI already.
pub fn choose_for(fd: i32, configuration: &Configuration) -> Result<(), Errno> {
    let at = table::conn(fd).ok_or(libc::ENOTCONN)?;
    let _guard = at.conn.lock();
    match at.conn.phase() {
        Phase::Candidate => at.conn.choice.set(configuration),
        Phase::Attached => return Err(libc::EISCONN),
        Phase::Plain | Phase::Free => return Err(libc::ENOTCONN),
    }
    Ok(())
}

/// What a connection is to do that is just given its VI.
pub(crate) fn of(conn: &Conn) -> (Parameters, Protocol) {
    conn.choice.get().or_else(|| PROCESS.get()).unwrap_or_else(|| translated(&SOCKETS))
}
