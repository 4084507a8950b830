//! Lets a connection meet again that is back on TCP.
//!
//! Its peer's process may have become another program, or have sent its end to another process, which runs under Sovia as
//! well. Or packet filters have taken it back, and may let it go again. Or another process has the other end than the one that was
//! asked.
//!
//! The connection begins a new life on record, as one that a program inherits does: what it has carried is the kernel's to
//! tell. Entries of epoll instances go on with it. Nothing else is to know of the life before. So it does that only where no
//! other thread or process may be in the middle of anything with it: otherwise it stays on TCP.

use super::close::last_here;
use crate::conn::{Phase, flag};
use crate::table::{self, Ref};
use crate::{family, inheritance, kernel_sockets, process, sets, thread};
use core::sync::atomic::Ordering;
use sovia_signal::chain;
use sovia_sync::section;
use sovia_sys::call;

/// What has happened to one that does not meet again. (That the process is no more which took it back says nothing of which
/// process has its end now.)
const OVER: u32 = flag::SHUT_WR
    | flag::SHUT_RD
    | flag::EOF
    | flag::CORRUPT
    | flag::ENDED
    | flag::RESET
    | flag::ERROR
    | flag::RELAYED
    | flag::LEFT_TO_SETS
    | flag::RETURNING
    | flag::REFLECTED;

/// Makes the kernel's call on a connection that is on TCP for good, unless it meets again.
#[inline]
pub(super) fn on_tcp<R>(fd: i32, at: Ref, kernel: impl FnOnce() -> R) -> R {
    let result = kernel();
    if at.conn.again.load(Ordering::Relaxed) != 0 {
        come_by(fd, at);
    }
    result
}

/// A call has come by. Each look costs system calls, so it is taken after 1, 2, 4 and so on.
#[cold]
#[inline(never)]
fn come_by(fd: i32, at: Ref) {
    let calls = at.conn.again.fetch_add(1, Ordering::Relaxed);
    if calls.is_power_of_two() && is_free(fd, at) {
        begin_anew(fd, at);
    }
}

/// Whether the calling thread alone has anything to do with the connection.
fn is_free(fd: i32, at: Ref) -> bool {
    !chain::is_in_handler()
        && !process::is_borrowed()
        && !process::is_elsewhere()
        && !process::is_changing()
        && !process::has_shared()
        && is_whole(at)
        && table::refers(fd, at)
        && table::references(at.index) == 1
        && !family::is_shared(at.conn)
        && !sets::has_attached(at)
        && call::tcp_state(fd).is_some_and(|state| !state.has_ended() && !state.peer_has_ended())
        && !inheritance::is_for_kernel(fd)
        && thread::is_single()
}

/// Whether nothing is left of its life on the VI that has to be known.
fn is_whole(at: Ref) -> bool {
    let conn = at.conn;
    conn.phase() == Phase::Plain
        && conn.is_generation(at.generation)
        && conn.is_the_familys()
        && !conn.has(OVER)
        && !conn.has_keeper()
        && conn.choice.get().is_none()
}

fn begin_anew(fd: i32, at: Ref) {
    // No handler of the program finds the descriptor on no record.
    let _inside = section::inside();
    let role = at.conn.role();
    // The new life counts what becomes of it.
    at.conn.count_once();
    kernel_sockets::leave(fd);
    table::remove(fd);
    table::enter_conn(fd, role, None, false);
    if let Some(here) = table::conn(fd) {
        sets::follow(at, here);
        here.conn.has_carried();
    }
    if table::release(at.index) {
        // The number is the new life's.
        last_here(-1, at);
    }
}
