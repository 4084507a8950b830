//! A descriptor is closed while other threads are blocked in calls on it.
//!
//! In the kernel such a call has the open file for as long as it lasts: it goes on, and the
//! connection ends when it returns. So the thread that closes the last descriptor keeps a private one for the
//! threads that wait, which it knows ([`hazard::users`]). Each of them goes on with the private one, and the
//! last to leave its call closes it. A thread that ends in its call leaves it, too. One that a signal handler
//! has taken out of its call by `longjmp` leaves it when it waits the next time.

use super::close::last_here;
use crate::conn::{Conn, Phase, flag};
use crate::kernel_sockets;
use crate::per_engine::per_engine;
use crate::stream::listeners;
use crate::table::{self, Entry, Ref};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sovia_signal::chain;
use sovia_sync::hazard::{self, User};
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call};

struct Kept {
    at: Ref,
    fd: Fd,
    /// Threads whose calls go on.
    users: Vec<User>,
}

per_engine! {
    static KEPT: RobustBox<Vec<Kept>, { rank::KEPT }> = RobustBox::new(Vec::new());
    /// How many there are.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    /// Whether a descriptor has ever been closed under a call.
    static EVER: AtomicBool = AtomicBool::new(false);
}
/// How often the progress thread looks for threads that have died in the middle of a call.
const LOOK_NS: u64 = 100_000_000;

/// The other threads of this process that wait for a connection.
fn waiting(conn: &Conn) -> Vec<User> {
    if !hazard::settle() {
        return Vec::new();
    }
    let mut users = hazard::users(conn.place());
    // The caller's own wait has been left by `longjmp`, or it is in a handler that has interrupted it: then
    // that fails for want of a descriptor.
    users.retain(|&user| user != User::me());
    users
}

/// `fd` is about to be closed. True if that is all done because calls on it go on.
pub(super) fn close(fd: i32) -> bool {
    let Entry::Conn(at) = table::get(fd) else { return false };
    let conn = at.conn;
    if conn.waiting_here() == 0
        || !matches!(conn.phase(), Phase::Attached | Phase::Candidate)
        || !conn.is_generation(at.generation)
    {
        return false;
    }
    EVER.store(true, Ordering::SeqCst);
    if table::references(at.index) > 1 {
        table::remove(fd);
        if table::release(at.index) {
            // Another thread has closed the other number meanwhile.
            last_here(fd, at);
        } else {
            // A thread that has looked at the number under the lock has done with it.
            drop(conn.lock());
        }
        return true;
    }
    let copy = || call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).map(|n| n as i32);
    let Ok(copy) = Fd::make(copy) else { return false };
    if !copy.is_high() {
        return false;
    }
    table::remove(fd);
    table::release(at.index);
    let unused = KEPT.with(|kept| {
        // SYNC: before the threads are looked for: one that has just left its wait, and is not found, or one
        // that leaves it later, and sees that something is kept.
        COUNT.fetch_add(1, Ordering::SeqCst);
        let one = Kept { at, fd: copy, users: waiting(conn) };
        if one.users.is_empty() {
            return Some(one);
        }
        kept.push(one);
        None
    });
    if let Some(one) = unused {
        over(one);
    } else {
        listeners::tell_own(conn);
        // The progress thread sees to waiting threads that die.
        kernel_sockets::nudge();
    }
    true
}

/// The descriptor by which a blocked call reaches its connection now. Under the connection's lock.
#[inline]
pub(crate) fn descriptor(fd: i32, at: Ref) -> i32 {
    if EVER.load(Ordering::Relaxed) { look(fd, at) } else { fd }
}

#[cold]
fn look(fd: i32, at: Ref) -> i32 {
    if table::refers(fd, at) || at.conn.has(flag::RELAYED) && !at.conn.is_attached_here() {
        return fd;
    }
    let me = User::me();
    let kept = KEPT.with(|kept| {
        let one = kept.iter_mut().find(|one| one.at.same(at))?;
        // It may have come to its wait a moment after the others had been looked for.
        if !one.users.contains(&me) {
            one.users.push(me);
        }
        Some(one.fd.raw())
    });
    // Or by another number that it still has.
    kept.or_else(|| table::descriptor_of(at.conn)).unwrap_or(-1)
}

/// The calling thread's call is over: it may have gone on without its descriptor.
#[inline]
pub(crate) fn leave() {
    if COUNT.load(Ordering::SeqCst) != 0 {
        leave_all();
    }
}

#[cold]
fn leave_all() {
    if chain::is_in_handler() {
        // The call that the handler has interrupted may go on by the same.
        return;
    }
    let me = User::me();
    finish(|user| user != me);
}

/// Closes what was kept for threads that have died.
pub(crate) fn collect() {
    if COUNT.load(Ordering::Relaxed) != 0 {
        finish(User::lives);
    }
}

/// Leaves of the threads those that `stays`, and closes what no thread uses any more.
fn finish(stays: impl Fn(User) -> bool) {
    let unused = KEPT.with(|kept| {
        kept.iter_mut().for_each(|one| one.users.retain(|&user| stays(user)));
        let (unused, used) =
            core::mem::take(kept).into_iter().partition::<Vec<_>, _>(|one| one.users.is_empty());
        *kept = used;
        unused
    });
    unused.into_iter().for_each(over);
}

fn over(one: Kept) {
    last_here(one.fd.raw(), one.at);
    COUNT.fetch_sub(1, Ordering::SeqCst);
}

/// How long until threads that have died are to be looked for; `None` if nothing is kept.
pub(crate) fn pause() -> Option<u64> {
    (COUNT.load(Ordering::Relaxed) != 0).then_some(LOOK_NS)
}

/// Calls `each` for every connection that is kept, with its private descriptor.
pub(crate) fn each(mut each: impl FnMut(i32, Ref)) {
    if COUNT.load(Ordering::Relaxed) != 0 {
        KEPT.with(|kept| kept.iter().for_each(|one| each(one.fd.raw(), one.at)));
    }
}

/// Around fork: see [`crate::fork`].
pub(crate) fn hold() {
    KEPT.hold();
}

/// After fork, in both.
pub(crate) fn release() {
    KEPT.release();
}

/// In a forked child: the calls have stayed with the parent.
pub(crate) fn forked() {
    COUNT.store(0, Ordering::Relaxed);
    drop(KEPT.with(core::mem::take));
}
