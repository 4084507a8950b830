//! Kernel sockets are kept alive on the way: a connection whose bytes are carried between hosts has a TCP connection that is silent, and
//! a firewall or an address translator with state forgets silent ones, though the program talks all the time.
//!
//! One that has been silent for [`ASK_EVERY_MS`] is asked once by the kernel's keep-alive whether the other host is there: a segment and
//! its answer, which the other end's kernel socket sees as well. Keep-alive that stays switched on would end a connection that TCP would have
//! kept, where the network is away for long. So it is switched on for that one question, with options by which nothing can come of it;
//! the program's own are put by, and put back at the next look, a second later, or when the program asks for one of them or changes one.
//! An kernel socket that the program itself has watched more often is left alone.

use crate::conn::{Conn, Guard, Locked, Phase, flag};
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sovia_sys::call::{Keepalive, Silence};

/// How long an kernel socket is silent before it is asked. Azure's load balancers forget a connection after four minutes, others that are
/// known after 350 seconds and more: two questions fall into the least of that, so that one may be lost.
const ASK_EVERY_MS: u32 = 100_000;
/// Between two looks at all kernel sockets (nanoseconds).
const LOOK_EVERY_NS: u64 = 10_000_000_000;
/// The kernel ends a connection that has left 127 questions unanswered. Whatever forgets silent connections has forgotten one long before
/// this.
const UNANSWERED_MAX: u32 = 100;

per_engine! {
    /// When the kernel sockets are looked at next.
    static LOOK_AT: AtomicU64 = AtomicU64::new(0);
    /// Some have had their options put by.
    static SOME_ASK: AtomicBool = AtomicBool::new(false);
}

/// Looks at the kernel sockets, by the thread that watches them, about once a second.
pub(crate) fn look(now: u64) {
    let is_due = LOOK_AT.load(Ordering::Relaxed) <= now;
    if !is_due && !SOME_ASK.load(Ordering::Relaxed) {
        return;
    }
    // Those that a process has had asked which has died are found at the next time that is due.
    SOME_ASK.store(false, Ordering::Relaxed);
    each(&mut put_back);
    if is_due {
        LOOK_AT.store(now + LOOK_EVERY_NS, Ordering::Relaxed);
        each(&mut |guard, fd| {
            if !guard.conn.put_by.is_some() && ask(guard, fd) {
                SOME_ASK.store(true, Ordering::Relaxed);
            }
        });
    }
}

/// Calls `each` for the kernel sockets of connections between hosts.
fn each(each: &mut dyn FnMut(&Guard<'_>, i32)) {
    table::for_each_conn(|fd, at| {
        // Where a thread has the lock it is at work on it.
        if may_ask(at.conn)
            && let Some(guard) = at.conn.try_lock().and_then(Locked::attached)
            && at.conn.is_generation(at.generation)
        {
            each(&guard, fd);
        }
    });
}

fn may_ask(conn: &Conn) -> bool {
    conn.phase() == Phase::Attached && conn.has(flag::REFLECTED)
}

/// Has the kernel ask whether the other host is there, if that is due. Whether it is to be looked at again.
fn ask(guard: &Guard<'_>, fd: i32) -> bool {
    if guard.conn.has(flag::FALLING_BACK | flag::CORRUPT) {
        return false;
    }
    let (Some(silence), Ok(own)) = (Silence::of(fd), Keepalive::of(fd)) else { return false };
    if !is_due(silence, own) || !table::is_socket_of(fd, guard.conn) {
        return false;
    }
    // First: a process that dies here leaves options that another one finds.
    guard.conn.put_by.put(own);
    // Where it has failed halfway they are put back all the same.
    let _ = Keepalive::ask_once(fd);
    true
}

fn is_due(silence: Silence, own: Keepalive) -> bool {
    // The program's own questions, of which one that is unanswered counts as one of these.
    let bears = if own.on {
        own.idle.saturating_mul(1000) > ASK_EVERY_MS && own.count > 1 && silence.unanswered == 0
    } else {
        silence.unanswered < UNANSWERED_MAX
    };
    bears && silence.milliseconds >= ASK_EVERY_MS.saturating_mul(silence.unanswered + 1)
}

/// The socket has the program's own options again.
fn put_back(guard: &Guard<'_>, fd: i32) {
    if guard.conn.put_by.is_some()
        && table::is_socket_of(fd, guard.conn)
        && let Some(own) = guard.conn.put_by.take()
    {
        let _ = own.put_back(fd);
    }
}

/// The kernel's socket is about to be all there is of the connection.
pub(crate) fn leave(guard: &Guard<'_>) {
    if guard.conn.put_by.is_some()
        && let Some(fd) = table::descriptor_of(guard.conn)
    {
        put_back(guard, fd);
    }
}

/// Makes a call of the program's about an option, before or after a question, and not in the middle of one.
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
