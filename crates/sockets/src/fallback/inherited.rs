//! Connections that another program inherits go back to TCP before it begins.

use super::{Cause, all};
use crate::Errno;
use crate::conn::Conn;
use crate::inheritance::{self, Descriptors, Left, Target};
use crate::{process, sets, table};

/// This process is about to become another program: all that this would inherit goes back to TCP, and it is told of
/// what it may take from there. What is returned is to be dropped where the process has not become the program. `target`
/// is asked for only if there may be something to tell.
///
/// # Errors
/// `ENOENT` if there is no such program: the kernel need not be asked, and nothing goes back.
pub fn before_exec<'a>(target: impl FnOnce() -> Target<'a>) -> Result<Left, Errno> {
    let inherited = inherited();
    let left = inheritance::leave(&inherited, target)?;
    take_back(inherited, Cause::Exec);
    if !process::is_borrowed() {
        sets::leave_by_exec();
    }
    Ok(left)
}

/// The same before a child is started that becomes one.
pub fn before_spawn() {
    let inherited = inherited();
    inheritance::spread(&inherited);
    take_back(inherited, Cause::Spawn);
}

/// The connections that another program gets.
fn inherited() -> Descriptors {
    // Before they are looked for: a connection that is opened after that is none of a fresh socket.
    table::note_shared();
    inheritance::inherited()
}

/// Whether a program that inherits the connection finds another thing on TCP than this process.
fn concerns(conn: &Conn) -> bool {
    conn.phase().may_be_on_vi() || conn.has_keeper()
}

fn take_back(mut inherited: Descriptors, cause: Cause) {
    // One that has not met must not meet later: what the new program moves over TCP is not counted here.
    inherited.retain(|(_, at)| concerns(at.conn));
    all(&inherited, cause);
}
