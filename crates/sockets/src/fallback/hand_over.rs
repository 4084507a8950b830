//! The small relatives of this process that a retreat may need, and handing a connection over to one of them.

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

/// Whether the calling thread is to hand the connection to a relay: one thread does. Under the lock.
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

/// Puts a relay in the place of the program's descriptors.
pub(super) fn hand_over(fd: i32, at: Ref) {
    // No handler of the program's leaves this half way.
    let _inside = section::inside();
    {
        let Some(_guard) = at.attached() else { return };
        let is_ours = at.conn.relaying.load(Ordering::Acquire) == thread::thread_id() as u32;
        if !is_ours || !table::refers(fd, at) {
            // Closed meanwhile, and another one perhaps.
            return;
        }
    }
    let is_relayed = PROCESSES.get().is_some_and(|processes| (processes.relay)(fd, at));
    if is_relayed {
        at.conn.stays(Reason::Relayed);
        stats::reason(Reason::Relayed);
    } else {
        // No process to be had: what was accepted cannot be delivered, and must not look
        // as if nothing were missing.
        let _ = call::shutdown(fd, libc::SHUT_RDWR);
        at.conn.relaying.store(0, Ordering::Release);
        detach(at);
    }
}

/// Moves what is unread of a connection, whose descriptor it gets as well, to a keeper; false if that cannot be.
pub(crate) type Keep<'k> = &'k dyn Fn(&mut Guard<'_>, i32) -> bool;

/// Makes a call for each connection in turn, with what moves its rest to a keeper.
pub(crate) type WithKeepers = fn(&[(i32, Ref)], &mut dyn FnMut(Keep<'_>));

/// The small relatives of this process that a retreat may need; false if they cannot be had.
pub(crate) struct Processes {
    /// Puts a relay in the place of every descriptor of a connection.
    pub relay: fn(i32, Ref) -> bool,
    /// Has keepers take rests over ([`crate::rest`]).
    pub with_keepers: WithKeepers,
    /// Has descriptors that another program inherits become ends that rests are read from, where a keeper has one.
    pub give: fn(&[(i32, Ref)]),
    /// Holds connections until they are back, while this process becomes another program.
    pub accompany: fn(&[(i32, Ref)]) -> bool,
}

per_engine! {
    pub(super) static PROCESSES: OnceLock<Processes> = OnceLock::new();
}

/// Has these start processes: they stand on the program's calls, which are above. Said once, at the start.
pub(crate) fn helped_by(processes: Processes) {
    let _ = PROCESSES.set(processes);
}
