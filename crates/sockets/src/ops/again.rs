//! Prepares another rendezvous for a connection that fell back to TCP.
//!
//! Another rendezvous may succeed in three cases:
//! - The peer's process has executed a program that runs under Sovia, or has sent its end to a process under Sovia.
//! - Packet filters had moved the connection to TCP, and may allow a VI now.
//! - Another process has the other end than the process that was asked.
//!
//! The connection's record begins a new generation, like the record of an inherited connection. The kernel reports
//! how many bytes TCP has carried. Entries of epoll instances move to the new generation. All other state of the
//! earlier generation is lost. So another rendezvous is prepared only if no other thread or process can be using
//! the connection.

use super::close::last_here;
use crate::conn::{Phase, flag};
use crate::table::{self, Ref};
use crate::{epoll_sets, family, kernel_sockets, other_families, process, thread};
use core::sync::atomic::Ordering;
use sovia_signal::chain;
use sovia_sync::critical_section;
use sovia_sys::call;

/// Flags that rule out another rendezvous. The death of the peer process does not, because another process may have
/// the other end now.
const OVER: u32 = flag::SHUT_WR
    | flag::SHUT_RD
    | flag::EOF
    | flag::CORRUPT
    | flag::ENDED
    | flag::RESET
    | flag::ERROR
    | flag::RELAYED
    | flag::LEFT_TO_EPOLL_SETS
    | flag::RETURNING
    | flag::REFLECTED;

/// Makes the kernel's call on a connection that stays on TCP. Then prepares another rendezvous if possible.
#[inline]
pub(super) fn on_tcp<R>(fd: i32, at: Ref, kernel: impl FnOnce() -> R) -> R {
    let result = kernel();
    if at.conn.again.load(Ordering::Relaxed) != 0 {
        come_by(fd, at);
    }
    result
}

/// Counts a call, and prepares another rendezvous if possible. Checks this only at calls 1, 2, 4, 8 and so on,
/// because a check costs system calls.
#[cold]
#[inline(never)]
fn come_by(fd: i32, at: Ref) {
    let calls = at.conn.again.fetch_add(1, Ordering::Relaxed);
    if calls.is_power_of_two() && is_free(fd, at) {
        begin_anew(fd, at);
    }
}

/// Returns true if no other thread or process uses the connection.
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
        && !epoll_sets::has_attached(at)
        && call::tcp_state(fd).is_some_and(|state| !state.has_ended() && !state.peer_has_ended())
        && !other_families::is_for_kernel(fd)
        && thread::is_single()
}

/// Returns true if the new generation needs no state of the earlier generation.
fn is_whole(at: Ref) -> bool {
    let conn = at.conn;
    conn.phase() == Phase::Plain
        && conn.is_generation(at.generation)
        && conn.is_the_familys()
        && !conn.has(OVER)
        && conn.choice.get().is_none()
}

fn begin_anew(fd: i32, at: Ref) {
    // Defer signals. A signal handler of the program must not find the descriptor without a record.
    let _inside = critical_section::inside();
    let role = at.conn.role();
    // Mark the old generation as counted, so that the statistics count only the outcome of the new generation.
    at.conn.count_once();
    kernel_sockets::leave(fd);
    table::remove(fd);
    table::enter_conn(fd, role, 0, false);
    if let Some(here) = table::conn(fd) {
        epoll_sets::follow(at, here);
        here.conn.has_carried();
    }
    if table::release(at.index) {
        // The old generation has no descriptor left, because `fd` belongs to the new generation.
        last_here(-1, at);
    }
}
