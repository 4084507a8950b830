//! Fallback of connections that another program inherits, before that program begins.

use super::{Cause, all};
use crate::Errno;
use crate::conn::Conn;
use crate::inheritance::{self, Descriptors, Left, Target};
use crate::{process, sets, table};

/// Moves all connections that the new program would inherit back to TCP, and leaves the program the records of
/// these connections. Called before this process executes the program. If the exec fails, the caller drops the
/// result, which takes the records back. `target` names the program, and is called only if there may be a
/// connection to record.
///
/// # Errors
/// `ENOENT` if there is no such program. Then all connections stay unchanged, and the caller need not try the exec.
pub fn before_exec<'a>(target: impl FnOnce() -> Target<'a>) -> Result<Left, Errno> {
    let inherited = inherited();
    let left = inheritance::leave(&inherited, target)?;
    take_back(inherited, Cause::Exec);
    if !process::is_borrowed() {
        sets::leave_by_exec();
    }
    Ok(left)
}

/// Moves all connections that a new child's program would inherit back to TCP. Called before the child is made.
pub fn before_spawn() {
    let inherited = inherited();
    inheritance::spread(&inherited);
    take_back(inherited, Cause::Spawn);
}

/// Returns the connections that another program would inherit from this process.
fn inherited() -> Descriptors {
    // Call this before the search for connections. A socket that exists now then no longer counts as fresh, even if
    // it becomes a connection later.
    table::note_shared();
    inheritance::inherited()
}

/// Returns true if a program that inherits the connection would find other bytes on TCP than the bytes that this
/// process receives.
fn concerns(conn: &Conn) -> bool {
    conn.phase().may_be_on_vi() || conn.has_keeper()
}

fn take_back(mut inherited: Descriptors, cause: Cause) {
    // The list also includes connections without a VI, which must not get a VI later. This process does not count
    // the bytes that the new program moves over TCP.
    inherited.retain(|(_, at)| concerns(at.conn));
    all(&inherited, cause);
}
