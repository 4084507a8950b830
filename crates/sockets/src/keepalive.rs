//! Keeps kernel sockets alive in firewalls and address translators. If a NIC in software carries a connection's
//! bytes between hosts, the TCP connection is silent. Stateful firewalls and address translators forget silent
//! connections.
//!
//! A kernel socket that has been silent for [`ASK_EVERY_MS`] sends one keep-alive probe. The probe and its answer
//! also keep the other end's kernel socket from being silent.
//!
//! Permanent keep-alive would end a connection that TCP would have kept during a long network failure. So this
//! module switches keep-alive on for one probe only, with options under which the probe has no other effect. This
//! module saves the program's own options. The next check, a second later, restores these options. A call of the
//! program that reads or changes such an option also restores all of them. If the program itself has set more
//! frequent probes, this module does not touch the socket.

use crate::conn::{Conn, Guard, Locked, Phase, flag};
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sovia_sys::call::{Keepalive, Silence};

/// Time of silence after which a kernel socket sends a probe. Azure's load balancers forget a connection after four
/// minutes, and other known ones after at least 350 seconds. Two probes fit into four minutes, so one of them may
/// be lost.
const ASK_EVERY_MS: u32 = 100_000;
/// Interval in nanoseconds between two checks of all kernel sockets.
const LOOK_EVERY_NS: u64 = 10_000_000_000;
/// Number of unanswered probes after which this module sends no more. The kernel would end the connection after
/// 127. Any firewall has forgotten a connection long before this number.
const UNANSWERED_MAX: u32 = 100;

per_engine! {
    /// Time of the next check of all kernel sockets.
    static LOOK_AT: AtomicU64 = AtomicU64::new(0);
    /// Set while this module has saved options of a kernel socket.
    static SOME_ASK: AtomicBool = AtomicBool::new(false);
}

/// Restores saved options, and sends due probes. The progress thread calls it about once a second.
pub(crate) fn look(now: u64) {
    let is_due = LOOK_AT.load(Ordering::Relaxed) <= now;
    if !is_due && !SOME_ASK.load(Ordering::Relaxed) {
        return;
    }
    // Restore also at each due check. Another process may have saved options and died.
    SOME_ASK.store(false, Ordering::Relaxed);
    each(&mut put_back);
    if is_due {
        LOOK_AT.store(now + LOOK_EVERY_NS, Ordering::Relaxed);
        each(&mut |guard, fd| {
            if !guard.conn.saved_keepalive.is_some() && ask(guard, fd) {
                SOME_ASK.store(true, Ordering::Relaxed);
            }
        });
    }
}

/// Calls `each` for the kernel sockets of connections between hosts, except those whose lock is taken.
fn each(each: &mut dyn FnMut(&Guard<'_>, i32)) {
    table::for_each_conn(|fd, at| {
        // Skip a connection whose lock is taken, because it is in use.
        if may_ask(at.conn)
            && let Some(guard) = at.conn.try_lock().and_then(Locked::attached)
            && at.conn.is_generation(at.generation)
        {
            each(&guard, table::current(fd, at));
        }
    });
}

fn may_ask(conn: &Conn) -> bool {
    conn.phase() == Phase::Attached && conn.has(flag::REFLECTED)
}

/// Makes the kernel send a probe to the other host, if a probe is due. Returns true if the socket's options must be
/// restored later.
fn ask(guard: &Guard<'_>, fd: i32) -> bool {
    if guard.conn.has(flag::FALLING_BACK | flag::CORRUPT) {
        return false;
    }
    let (Some(silence), Ok(own)) = (Silence::of(fd), Keepalive::of(fd)) else { return false };
    if !is_due(silence, own) || !table::is_socket_of(fd, guard.conn) {
        return false;
    }
    // Save the options first. If this process dies after the change, another process finds the saved options.
    guard.conn.saved_keepalive.put(own);
    // Ignore an error. The options are restored later in any case.
    let _ = Keepalive::ask_once(fd);
    true
}

fn is_due(silence: Silence, own: Keepalive) -> bool {
    // If the program has keep-alive on, the kernel also counts this module's unanswered probes towards the
    // program's limit.
    let bears = if own.on {
        own.idle.saturating_mul(1000) > ASK_EVERY_MS && own.count > 1 && silence.unanswered == 0
    } else {
        silence.unanswered < UNANSWERED_MAX
    };
    bears && silence.milliseconds >= ASK_EVERY_MS.saturating_mul(silence.unanswered + 1)
}

/// Restores the program's own keep-alive options on the socket, if they are saved.
fn put_back(guard: &Guard<'_>, fd: i32) {
    if guard.conn.saved_keepalive.is_some()
        && table::is_socket_of(fd, guard.conn)
        && let Some(own) = guard.conn.saved_keepalive.take()
    {
        let _ = own.put_back(fd);
    }
}

/// Restores the program's keep-alive options before the connection leaves its VI.
pub(crate) fn leave(guard: &Guard<'_>) {
    if guard.conn.saved_keepalive.is_some()
        && let Some(fd) = table::descriptor_of(guard.conn)
    {
        put_back(guard, fd);
    }
}

/// Makes the program's call about a socket option. Before a call about keep-alive, restores the program's own
/// options. While `call` runs, no probe begins.
pub(crate) fn steady<T>(fd: i32, at: Ref, option: (i32, i32), call: impl FnOnce() -> T) -> T {
    let is_of_keepalive = matches!(
        option,
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE)
            | (
                libc::IPPROTO_TCP,
                libc::TCP_KEEPIDLE
                    | libc::TCP_KEEPINTVL
                    | libc::TCP_KEEPCNT
                    | libc::TCP_USER_TIMEOUT
            )
    );
    let guard = (is_of_keepalive && may_ask(at.conn)).then(|| at.attached()).flatten();
    if let Some(guard) = &guard {
        put_back(guard, fd);
    }
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: Keepalive =
        Keepalive { on: false, idle: 7200, interval: 75, count: 9, user_timeout: 0 };

    fn after(seconds: u32, unanswered: u32) -> Silence {
        Silence { milliseconds: seconds * 1000, unanswered }
    }

    #[test]
    fn silent_kernel_socket_is_asked_and_once_in_a_while_again() {
        assert!(!is_due(after(99, 0), OFF) && is_due(after(100, 0), OFF));
        assert!(!is_due(after(199, 1), OFF) && is_due(after(200, 1), OFF));
        assert!(is_due(after(10_000, 99), OFF) && !is_due(after(100_000, 100), OFF));
    }

    #[test]
    fn kernel_socket_that_the_program_watches_is_asked_where_that_changes_nothing() {
        let on = Keepalive { on: true, ..OFF };
        assert!(is_due(after(100, 0), on), "every two hours are too few");
        assert!(!is_due(after(1000, 1), on), "the program's own count goes on");
        assert!(!is_due(after(100, 0), Keepalive { idle: 60, ..on }));
        assert!(!is_due(after(100, 0), Keepalive { count: 1, ..on }));
    }
}
