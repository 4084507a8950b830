//! The helper processes that a fallback may need, and the handover of a connection to a relay.

use super::detach;
use crate::conn::{Conn, Guard, flag};
use crate::per_engine::per_engine;
use crate::stats;
use crate::table::{self, Ref};
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_sync::{section, thread};
use sovia_sys::call;
use std::sync::OnceLock;

/// Makes the calling thread the one that hands the connection over to a relay. Returns false if another living
/// thread hands the connection over. Called under the connection's lock.
pub(super) fn hands_over(conn: &Conn) -> bool {
    let other = conn.relaying.load(Ordering::Acquire);
    let me = thread::thread_id() as u32;
    let may = other == 0 || other == me || !call::task_exists(other as i32);
    if may {
        conn.relaying.store(me, Ordering::Release);
        conn.set(flag::FALLING_BACK);
    }
    may
}

/// Replaces the program's descriptors by a socket to a relay.
pub(super) fn hand_over(fd: i32, at: Ref) {
    // From here on, no signal handler of the program runs. So none can leave this function by `longjmp`.
    let _inside = section::inside();
    {
        let Some(_guard) = at.attached() else { return };
        let is_ours = at.conn.relaying.load(Ordering::Acquire) == thread::thread_id() as u32;
        if !is_ours || !table::refers(fd, at) {
            // Another thread hands the connection over, or the descriptor has been closed and may belong to another
            // connection now.
            return;
        }
    }
    let is_relayed = PROCESSES.get().is_some_and(|processes| (processes.relay)(fd, at));
    if is_relayed {
        at.conn.stays(Reason::Relayed);
        stats::reason(Reason::Relayed);
    } else {
        // No relay could be started, so bytes that the kernel or the VI has accepted are lost. Shut down the socket
        // to make the loss visible to the program.
        let _ = call::shutdown(fd, libc::SHUT_RDWR);
        at.conn.relaying.store(0, Ordering::Release);
        detach(at);
    }
}

/// Moves the unread bytes of a connection to a keeper. Takes the connection's guard and descriptor. Returns false if
/// the bytes cannot be moved.
pub(crate) type Keep<'k> = &'k dyn Fn(&mut Guard<'_>, i32) -> bool;

/// Calls the given function once for each connection in turn. The function gets a [`Keep`], which moves the
/// connection's unread bytes to a keeper.
pub(crate) type WithKeepers = fn(&[(i32, Ref)], &mut dyn FnMut(Keep<'_>));

/// Functions that start the helper processes of a fallback. A function with a result returns false if a process
/// cannot start.
pub(crate) struct Processes {
    /// Replaces every descriptor of a connection by a socket to a relay.
    pub relay: fn(i32, Ref) -> bool,
    /// Starts keepers, which take over unread bytes ([`crate::rest`]).
    pub with_keepers: WithKeepers,
    /// Replaces descriptors that another program inherits by Unix sockets from which a keeper's bytes are read.
    pub give: fn(&[(i32, Ref)]),
    /// Holds connections until they are back on TCP, while this process executes another program.
    pub accompany: fn(&[(i32, Ref)]) -> bool,
}

per_engine! {
    pub(super) static PROCESSES: OnceLock<Processes> = OnceLock::new();
}

/// Sets the functions that start helper processes, because these functions belong to modules of higher layers.
/// Called once, when the engine starts.
pub(crate) fn helped_by(processes: Processes) {
    let _ = PROCESSES.set(processes);
}
