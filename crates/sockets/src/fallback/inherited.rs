//! Fallback of connections that another program inherits, before that program begins.

use super::{Cause, all};
use crate::Errno;
use crate::conn::Conn;
use crate::inheritance::{self, Descriptors, Left, Target};
use crate::{process, sets, table};

/// Moves all connections back to TCP that the new program would inherit, and leaves it their records. Called before
/// this process executes the program. The caller drops the result if the exec fails. `target` is called only if there
/// may be a connection to record.
///
/// # Errors
/// `ENOENT` if there is no such program. Then nothing goes back, and the caller need not ask the kernel.
pub fn before_exec<'a>(target: impl FnOnce() -> Target<'a>) -> Result<Left, Errno> {
    let inherited = inherited();
    let left = inheritance::leave(&inherited, target)?;
    take_back(inherited, Cause::Exec);
    if !process::is_borrowed() {
        sets::leave_by_exec();
    }
    Ok(left)
}

/// Moves all connections back to TCP that a new child's program would inherit. Called before the child is made.
pub fn before_spawn() {
    let inherited = inherited();
    inheritance::spread(&inherited);
    take_back(inherited, Cause::Spawn);
}

/// Returns the connections that another program gets.
fn inherited() -> Descriptors {
    // Call this before the search. A connection that is opened later on a socket that exists now is then not fresh.
    table::note_shared();
    inheritance::inherited()
}

/// Returns true if a program that inherits the connection would find other bytes on TCP than this process.
fn concerns(conn: &Conn) -> bool {
    conn.phase().may_be_on_vi() || conn.has_keeper()
}

fn take_back(mut inherited: Descriptors, cause: Cause) {
    // A connection without a VI must not get one later: this process does not count what the new program moves over
    // TCP.
    inherited.retain(|(_, at)| concerns(at.conn));
    all(&inherited, cause);
}
