//! Keeps a connection's open file alive if the program closes the descriptor while other threads are blocked in
//! calls on it.
//!
//! The kernel does the same: a blocked call holds the open file until the call returns, and only then the
//! connection ends. So the thread that closes the last descriptor makes a private descriptor for the waiting
//! threads. [`hazard::users`] finds these threads. Their calls continue on the private descriptor, and the last
//! thread to leave its call closes it. A thread that ends during its call counts as having left. A thread whose
//! call was left by `longjmp` from a signal handler leaves at its next wait.

use super::close::last_here;
use crate::conn::{Conn, Phase, flag};
use crate::per_engine::per_engine;
use crate::stream::listeners;
use crate::table::{self, Entry, Ref};
use crate::{kernel_sockets, rendezvous};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_signal::chain;
use sovia_sync::hazard::{self, User};
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call};

struct RetainedFile {
    at: Ref,
    fd: Fd,
    /// Threads whose calls continue on `fd`.
    users: Vec<User>,
}

per_engine! {
    static RETAINED: RobustBox<Vec<RetainedFile>, { rank::RETAINED }> = RobustBox::new(Vec::new());
    /// Number of entries in `RETAINED`.
    static COUNT: AtomicU32 = AtomicU32::new(0);
}
/// Interval in nanoseconds between the progress thread's checks for threads that have died during a call.
const LOOK_NS: u64 = 100_000_000;

/// Returns the threads of this process that wait for the connection `conn`, except the calling thread.
fn waiting(conn: &Conn) -> Vec<User> {
    if !hazard::settle() {
        return Vec::new();
    }
    let mut users = hazard::users(conn.address());
    // Exclude the calling thread, which is listed if a signal handler interrupted its wait or left the wait by
    // `longjmp`. If the thread continues this wait, the wait fails, because the wait has no descriptor.
    users.retain(|&user| user != User::me());
    users
}

/// Handles the close of `fd` while calls on `fd` go on. Returns true if the caller need not release `fd`.
pub(super) fn close(fd: i32) -> bool {
    let Entry::Conn(at) = table::get(fd) else { return false };
    let conn = at.conn;
    if conn.waiting_here() == 0
        || !matches!(conn.phase(), Phase::Attached | Phase::Eligible)
        || !conn.is_generation(at.generation)
        || table::references(at.index) > 1
    {
        return false;
    }
    let copy = || call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).map(|n| n as i32);
    let Ok(copy) = Fd::make(copy) else { return false };
    if !copy.is_high() {
        return false;
    }
    // List the private descriptor first: as soon as the table has no entry for `fd`, blocked calls look for it. The
    // calling thread stands for the users until they are known.
    let me = User::me();
    RETAINED.with(|kept| kept.push(RetainedFile { at, fd: copy, users: vec![me] }));
    // SYNC: pairs with the load in `leave`. The count rises before `waiting` looks for threads. A thread that
    // `waiting` does not find has already left its wait. A thread that leaves its wait later sees the count.
    COUNT.fetch_add(1, Ordering::SeqCst);
    table::note_closed();
    {
        // The progress thread finds a connection only by a descriptor in the table.
        let _lock = conn.lock();
        kernel_sockets::watch_at_once(conn);
        table::remove(fd);
    }
    rendezvous::finish_step(at);
    table::release(at.index);
    let unused = RETAINED.with(|kept| {
        let place = kept.iter().position(|one| one.at.same(at))?;
        let one = &mut kept[place];
        one.users.retain(|&user| user != me);
        one.users.extend(waiting(conn));
        one.users.is_empty().then(|| kept.swap_remove(place))
    });
    if let Some(one) = unused {
        over(one);
    } else {
        listeners::notify_own(conn);
        // Make the progress thread check for waiting threads that die.
        kernel_sockets::nudge();
    }
    true
}

/// Returns the descriptor by which a blocked call on `fd` now reaches the connection. Call it under the
/// connection's lock.
#[inline]
pub(crate) fn descriptor(fd: i32, at: Ref) -> i32 {
    if table::may_be_closed() { look(fd, at) } else { fd }
}

#[cold]
fn look(fd: i32, at: Ref) -> i32 {
    if table::refers(fd, at) || at.conn.has(flag::RELAYED) && !at.conn.is_attached_here() {
        return fd;
    }
    let me = User::me();
    let kept = RETAINED.with(|kept| {
        let one = kept.iter_mut().find(|one| one.at.same(at))?;
        // Add this thread, which may have begun its wait just after the closing thread had looked for waiting
        // threads.
        if !one.users.contains(&me) {
            one.users.push(me);
        }
        Some(one.fd.raw())
    });
    // The connection may still have another descriptor.
    kept.or_else(|| table::descriptor_of(at.conn)).unwrap_or(-1)
}

/// Ends the calling thread's use of a private descriptor, if it used one. Called at the end of a call.
#[inline]
pub(crate) fn leave() {
    if COUNT.load(Ordering::SeqCst) != 0 {
        leave_all();
    }
}

#[cold]
fn leave_all() {
    if chain::is_in_handler() {
        // Keep the private descriptor, because the interrupted call may still use it.
        return;
    }
    let me = User::me();
    finish(|user| user != me);
}

/// Removes threads that have died, and closes private descriptors that no thread uses any more.
pub(crate) fn collect() {
    if COUNT.load(Ordering::Relaxed) != 0 {
        finish(User::lives);
    }
}

/// Removes the threads for which `stays` returns false. Closes private descriptors that no thread uses any more.
fn finish(stays: impl Fn(User) -> bool) {
    let unused = RETAINED.with(|kept| {
        kept.iter_mut().for_each(|one| one.users.retain(|&user| stays(user)));
        let (unused, used) =
            core::mem::take(kept).into_iter().partition::<Vec<_>, _>(|one| one.users.is_empty());
        *kept = used;
        unused
    });
    unused.into_iter().for_each(over);
}

fn over(one: RetainedFile) {
    last_here(one.fd.raw(), one.at);
    COUNT.fetch_sub(1, Ordering::SeqCst);
}

/// Returns the time in nanoseconds until the next check for dead threads. `None` if there is no private descriptor.
pub(crate) fn pause() -> Option<u64> {
    (COUNT.load(Ordering::Relaxed) != 0).then_some(LOOK_NS)
}

/// Calls `each` for every kept connection, with its private descriptor.
pub(crate) fn each(mut each: impl FnMut(i32, Ref)) {
    if COUNT.load(Ordering::Relaxed) != 0 {
        RETAINED.with(|kept| kept.iter().for_each(|one| each(one.fd.raw(), one.at)));
    }
}

/// Takes this module's lock before a fork ([`crate::fork`]).
pub(crate) fn hold() {
    RETAINED.hold();
}

/// Releases this module's lock after a fork, in parent and child.
pub(crate) fn release() {
    RETAINED.release();
}

/// Drops the private descriptors in a forked child. The blocked calls exist only in the parent.
pub(crate) fn forked() {
    COUNT.store(0, Ordering::Relaxed);
    drop(RETAINED.with(core::mem::take));
}
