//! Settings from the papers' table 4, for the process or for one connection.
//!
//! By default, the thread that receives handles messages (SINGLE), and the NIC reads the program's bytes during the
//! call that sends them (AUTO). On a shared segment, a handler thread, a registration or another copy would only
//! add costs. All settings of table 4 can be chosen, except the three-way handshake ([`Configuration::of_socket`]).
//! A window that does not fit into the ring with its acknowledgements is refused, and a preset's window is reduced.

use crate::Errno;
use crate::conn::{Choice, Conn, Phase, Protocol, translated};
use crate::per_engine::per_engine;
use crate::table;
use sovia_proto::configuration::{Configuration, SOCKETS};
use sovia_proto::flow::Parameters;

per_engine! {
    /// Configuration of connections for which none was chosen.
    static PROCESS: Choice = Choice::nothing();
}

/// Sets the configuration of all future connections.
pub fn choose(configuration: &Configuration) {
    PROCESS.set(configuration);
}

/// Sets the configuration of the connection behind `fd`.
///
/// # Errors
/// `ENOTCONN` if `fd` is no connection, or stays on TCP for good; `EISCONN` if the connection already has its VI.
pub fn choose_for(fd: i32, configuration: &Configuration) -> Result<(), Errno> {
    let at = table::conn(fd).ok_or(libc::ENOTCONN)?;
    let _guard = at.conn.lock();
    match at.conn.phase() {
        Phase::Eligible => at.conn.choice.set(configuration),
        Phase::Attached => return Err(libc::EISCONN),
        Phase::Plain | Phase::Free => return Err(libc::ENOTCONN),
    }
    Ok(())
}

/// Returns the configuration of a connection that is just getting its VI.
pub(crate) fn of(conn: &Conn) -> (Parameters, Protocol) {
    conn.choice.get().or_else(|| PROCESS.get()).unwrap_or_else(|| translated(&SOCKETS))
}
