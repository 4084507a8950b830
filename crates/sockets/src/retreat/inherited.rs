//! Connections that another program inherits go back to TCP before it begins.

use super::{Cause, all};
use crate::Errno;
use crate::conn::Conn;
use crate::inheritance::{self, Left, Target};
use crate::process;
use crate::table::{self, Ref};
use sovia_sys::call;

/// This process is about to become another program: all that this would inherit goes back to TCP, and it is told of
/// what it may take from there. What is returned is to be dropped where the process has not become the program.
///
/// # Errors
/// `ENOENT` if there is no such program: the kernel need not be asked, and nothing goes back.
pub fn before_exec(target: Target<'_>) -> Result<Left, Errno> {
    let left = inheritance::leave(target)?;
    leave_inherited(Cause::Exec);
    Ok(left)
}

/// The same before a child is started that becomes one.
pub fn before_spawn() {
    inheritance::spread();
    leave_inherited(Cause::Spawn);
}

/// Whether a program that inherits the connection finds another thing on TCP than this process.
fn concerns(conn: &Conn) -> bool {
    conn.phase().may_be_on_vi() || conn.rest.find().is_some()
}

fn leave_inherited(cause: Cause) {
    table::note_shared();
    let mut inherited = Vec::new();
    let look = |fd, at: Ref| {
        let flags = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC as usize);
        // One that has not met must not meet later: what the new program moves over TCP is not counted here.
        if concerns(at.conn) && flags & libc::FD_CLOEXEC as usize == 0 {
            inherited.push((fd, at));
        }
    };
    if process::is_borrowed() {
        table::for_each_conn_elsewhere(concerns, look);
    } else {
        table::for_each_conn(look);
    }
    all(&inherited, cause);
}
