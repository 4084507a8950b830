//! A descriptor is closed while other threads are blocked in calls on it.
//!
//! In the kernel such a call has the open file for as long as it lasts: it goes on, and the
//! connection ends when it returns. So whoever closes the last descriptor keeps a private one, and
//! wakes those who wait; each that finds its descriptor gone says that it goes on with the private
//! one, and the last of them closes it. A call that was left by `longjmp`, or whose thread was
//! cancelled, says nothing, and keeps nothing open.

use super::close::last_here;
use crate::anchors;
use crate::conn::Phase;
use crate::robust::RobustBox;
use crate::stream::listeners;
use crate::table::{self, Entry, Ref};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sync::thread;
use sovia_sys::{Fd, call};

struct Kept {
    at: Ref,
    fd: Fd,
    /// Threads whose calls go on.
    users: Vec<i32>,
}

static KEPT: RobustBox<Vec<Kept>> = RobustBox::new(Vec::new());
/// Whether a descriptor has ever been closed under a call.
static EVER: AtomicBool = AtomicBool::new(false);
/// How often the progress thread looks for threads that have died in the middle of a call.
const LOOK_NS: u64 = 100_000_000;

thread_local! {
    /// The connection that this thread's call goes on with.
    static MINE: Cell<Option<Ref>> = const { Cell::new(None) };
}

/// `fd` is about to be closed. True if that is all done because calls on it go on.
pub(super) fn close(fd: i32) -> bool {
    let Entry::Conn(at) = table::get(fd) else { return false };
    let conn = at.conn;
    if conn.waiting_here() == 0
        || conn.phase() != Phase::Attached
        || !conn.is_generation(at.generation)
    {
        return false;
    }
    EVER.store(true, Ordering::SeqCst);
    if table::references(at.index) > 1 {
        table::remove(fd);
        table::release(at.index);
        // Whoever has looked at the number has done with it.
        drop(conn.lock());
        return true;
    }
    let copy = || call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).map(|n| n as i32);
    let Ok(copy) = Fd::make(copy) else { return false };
    if !copy.is_high() {
        return false;
    }
    KEPT.with(|kept| kept.push(Kept { at, fd: copy, users: Vec::new() }));
    table::remove(fd);
    table::release(at.index);
    await_users(at);
    let unused = KEPT.with(|kept| {
        let i = kept.iter().position(|one| one.at.same(at) && one.users.is_empty())?;
        Some(kept.swap_remove(i))
    });
    if let Some(one) = unused {
        last_here(fd, at);
        drop(one);
    } else {
        // The progress thread sees to those who die.
        anchors::nudge();
    }
    true
}

/// Gives those who wait the time to say that they go on.
fn await_users(at: Ref) {
    const MANY: u32 = 10_000;
    const FEW: u32 = 100;
    let mut rounds = 0;
    loop {
        listeners::tell_own(at.conn);
        call::sched_yield();
        let users = KEPT.with(|kept| {
            kept.iter().find(|one| one.at.same(at)).map_or(usize::MAX, |one| one.users.len())
        });
        rounds += 1;
        let patience = if users == 0 { MANY } else { FEW };
        if users >= at.conn.waiting_here() || rounds >= patience {
            return;
        }
    }
}

/// The descriptor by which a blocked call reaches its connection now. Under the connection's lock.
#[inline]
pub(crate) fn descriptor(fd: i32, at: Ref) -> i32 {
    if EVER.load(Ordering::Relaxed) { look(fd, at) } else { fd }
}

#[cold]
fn look(fd: i32, at: Ref) -> i32 {
    if table::refers(fd, at) {
        return fd;
    }
    let me = thread::thread_id();
    let kept = KEPT.with(|kept| {
        let one = kept.iter_mut().find(|one| one.at.same(at))?;
        if !one.users.contains(&me) {
            one.users.push(me);
        }
        Some(one.fd.raw())
    });
    if kept.is_some() {
        MINE.set(Some(at));
    }
    // Or by another number that it still has.
    kept.or_else(|| table::descriptor_of(at.conn)).unwrap_or(-1)
}

/// A call that may have gone on without its descriptor is over.
#[inline]
pub(crate) fn leave() {
    if EVER.load(Ordering::Relaxed)
        && let Some(at) = MINE.take()
    {
        let me = thread::thread_id();
        finish(|one| {
            let mine = one.at.same(at) && one.users.contains(&me);
            one.users.retain(|&user| user != me);
            mine && one.users.is_empty()
        });
    }
}

/// Closes what `is_over`.
fn finish(mut is_over: impl FnMut(&mut Kept) -> bool) {
    let one = KEPT.with(|kept| {
        let i = kept.iter_mut().position(&mut is_over)?;
        Some(kept.swap_remove(i))
    });
    if let Some(one) = one {
        last_here(one.fd.raw(), one.at);
    }
}

/// How long until threads that have died are to be looked for; `None` if nothing is kept.
pub(crate) fn pause() -> Option<u64> {
    let any = EVER.load(Ordering::Relaxed) && KEPT.with(|kept| !kept.is_empty());
    any.then_some(LOOK_NS)
}

/// Calls `each` for every connection that is kept, with its private descriptor.
pub(crate) fn each(mut each: impl FnMut(i32, Ref)) {
    if EVER.load(Ordering::Relaxed) {
        KEPT.with(|kept| kept.iter().for_each(|one| each(one.fd.raw(), one.at)));
    }
}

/// Closes what was kept for threads that have died.
pub(crate) fn collect() {
    if EVER.load(Ordering::Relaxed) {
        finish(|one| {
            !one.users.is_empty() && !one.users.iter().any(|&user| call::task_exists(user))
        });
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
    drop(KEPT.with(core::mem::take));
}
