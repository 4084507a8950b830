//! Programs that this process executes or starts, and the connections that they inherit.
//!
//! A program that loads the library **joins the family** of the process that executes it, like a forked child. It maps
//! the family's records and the segments of its connections at their addresses, and continues on the VIs. The peer
//! notices nothing. Unread bytes, the peer's death and the relatives' copies of the connection are as after a fork.
//!
//! 1. Before the exec, this process reserves a process slot for the program. It names the slot among the holders of
//!    each connection that the program inherits. It writes the data about these connections to a memory file
//!    (`leave.rs`; for the form see [`sovia_control::inheritance`]). The exec keeps this file, and the descriptors that
//!    the data names.
//! 2. The slot's lock belongs to an open file that only the program gets. So the family knows at any moment whether
//!    the program, or the process that executes it, still lives (`process_slots::Reserved`).
//! 3. The exec ends this process as a member of the family: the kernel releases its lock. Connections that the program
//!    does not inherit are then closed, like those of a process that has died.
//! 4. At its start, the program takes the data and the slot (`join.rs`).
//!
//! All other connections that a program inherits fall back to TCP before the exec ([`crate::fallback`]). These are the
//! connections of a program without the library. They are also connections with a part that belongs to this process or
//! to an agent. A program that `posix_spawn`, `system` or `popen` starts gets all its connections on TCP.
//! Its parent runs on and may start another program at the same moment. Neither of the two would know which descriptors
//! are for it.

mod join;
mod leave;
mod program;

pub(crate) use join::join;
pub use leave::ExecPreparation;
pub use program::Target;

use crate::Errno;
use crate::fallback::{self, Cause};
use crate::table::{self, Ref};
use crate::{epoll_sets, other_families, process};
use smallvec::SmallVec;
use sovia_sys::call;

/// Descriptors, each with its connection.
type Descriptors = SmallVec<[(i32, Ref); 4]>;

/// Prepares the connections that the new program would inherit. The program takes them over, or they move back to
/// TCP. Called before this process executes the program. If the exec fails, the caller drops the result, which undoes
/// the preparation. `target` names the program, and is called only if there may be a connection to pass on.
///
/// # Errors
/// Those with which the exec would fail, if there is no such program. Then all connections stay unchanged, and the
/// caller need not try the exec.
pub fn before_exec<'a>(target: impl FnOnce() -> Target<'a>) -> Result<ExecPreparation, Errno> {
    if process::is_borrowed() && leave::may_be_leaving() {
        join::forget_left();
    }
    let mut inherited = inherited();
    let left = leave::leave(&inherited, target)?;
    inherited.retain(|(_, at)| !left.passes(at.conn));
    take_back(inherited, Cause::Exec);
    if !process::is_borrowed() {
        epoll_sets::leave_by_exec();
    }
    Ok(left)
}

/// Makes a forked child not keep the descriptors that a thread of its parent leaves to a program.
pub(crate) fn forked() {
    if leave::may_be_leaving() {
        leave::forked();
        join::forget_left();
    }
}

/// Moves all connections that a new child's program would inherit back to TCP. Called before the child is made.
pub fn before_spawn() {
    let inherited = inherited();
    other_families::spread(&inherited);
    take_back(inherited, Cause::Spawn);
}

/// Returns the descriptors of connections that another program would inherit from this process.
fn inherited() -> Descriptors {
    // Call this before the search for connections. A socket that exists now then no longer counts as fresh, even if
    // it becomes a connection later.
    table::note_shared();
    let mut inherited = Descriptors::new();
    if process::is_borrowed() {
        table::for_each_conn_elsewhere(|fd, at| {
            if outlasts_exec(fd) && table::is_socket_of(fd, at.conn) {
                inherited.push((fd, at));
            }
        });
    } else {
        table::for_each_conn_if(outlasts_exec, |fd, at| inherited.push((fd, at)));
    }
    inherited
}

fn outlasts_exec(fd: i32) -> bool {
    let flags = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC as usize);
    flags & libc::FD_CLOEXEC as usize == 0
}

fn take_back(mut inherited: Descriptors, cause: Cause) {
    // The list also includes connections without a VI, which must not get a VI later. This process does not count
    // the bytes that the new program moves over TCP.
    inherited.retain(|(_, at)| at.conn.phase().may_be_on_vi());
    fallback::all(&inherited, cause);
}
