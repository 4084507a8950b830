//! Forks: the child has a copy of everything, and nothing in it is half done.
//!
//! The same steps are made around every call of libc's that makes a process with a copy of this one's
//! memory: by handlers of pthread_atfork, and by the hooks of `_Fork`, `clone` and `syscall`, for which
//! libc runs no handlers ([`before`]). A child that no call of libc's has made joins when it is found to
//! be one ([`crate::process`]).

use crate::conn::unnamed;
use crate::{
    closer, credentials, family, filters, handler, inheritance, kept, kernel_sockets, linger,
    meeting, members, memory, ops, pair, peers, pollset, process, progress, reactor, sets, stream,
    table,
};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use sovia_sync::{hazard, section, thread};

fn errno() -> i32 {
    // SAFETY: glibc's pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(e: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = e };
}

/// The program's `errno` while a fork is under way.
static ERRNO: AtomicI32 = AtomicI32::new(0);
/// Whether the fork that is under way has all locks.
static WHOLE: AtomicBool = AtomicBool::new(false);

/// Runs as the last before the kernel is asked, and [`parent`] as the first after it: handlers that
/// the program registers later run around these.
extern "C" fn prepare() {
    let before = errno();
    let whole = forking();
    WHOLE.store(whole, Ordering::Relaxed);
    ERRNO.store(before, Ordering::Relaxed);
    set_errno(0);
}

extern "C" fn parent() {
    // Nothing tells these handlers whether there is a child, but a failure leaves its number.
    let whole = WHOLE.load(Ordering::Relaxed);
    match errno() {
        0 => {
            let before = ERRNO.load(Ordering::Relaxed);
            fork_done(whole);
            set_errno(before);
        }
        failure => {
            members::expect_nobody();
            fork_done(whole);
            set_errno(failure);
        }
    }
}

extern "C" fn child() {
    thread::forked();
    born(WHOLE.load(Ordering::Relaxed));
    set_errno(ERRNO.load(Ordering::Relaxed));
}

/// Whether the process has several threads only because the library has some.
pub fn is_threaded_by_us() -> bool {
    crate::thread::have_been() && crate::thread::may_be_single()
}

/// Before a call that makes a child which runs on this process's memory and does not end at once. It has no thread of its own
/// that watches kernel sockets.
pub fn sharing_memory() {
    kernel_sockets::ensure();
    inheritance::shares_memory();
}

/// What has been prepared for a child.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Prepared {
    whole: bool,
    errno: i32,
}

/// Before a call that makes a child with a copy of this memory, and for which libc runs no handlers.
pub fn before() -> Prepared {
    let errno = errno();
    Prepared { whole: forking(), errno }
}

impl Prepared {
    /// After it, in the parent; `made`: there is a child.
    pub fn in_parent(self, made: bool) {
        let after = errno();
        if !made {
            members::expect_nobody();
        }
        fork_done(self.whole);
        set_errno(if made { self.errno } else { after });
    }

    /// After it, in the child; `libc`: libc knows of the child.
    pub fn in_child(self, libc: bool) {
        if libc {
            thread::forked();
        } else {
            thread::forked_without_libc();
        }
        born(self.whole);
        set_errno(self.errno);
    }
}

/// Before fork. The child will hold every connection that this process holds: counted in advance, so
/// that neither can be the last by mistake. And no thread is in the middle of changing what the child
/// will get a copy of; but where the caller itself is in the middle of it (a signal handler has
/// interrupted it), that goes on in the child as well, and the answer is false.
fn forking() -> bool {
    table::note_shared();
    let whole = !section::is_inside();
    if whole {
        // The thread that would do it later stays with the parent, which may end.
        stream::combine::before_waiting();
        if !process::is_confined() {
            progress::end_for_fork();
        }
        // A handler that forks would wait for what this thread holds, and not every part of that is a lock.
        section::enter();
        credentials::hold();
        meeting::hold();
        reactor::hold();
        sets::hold();
        // Before the pairs: the thread that starts another one makes a doorbell for it.
        kernel_sockets::hold();
        handler::hold();
        pair::hold();
        peers::hold();
        closer::hold();
        ops::keep::hold();
        pair::lent::hold();
        hazard::hold();
        linger::hold();
        filters::hold();
    }
    sets::copying();
    if process::is_confined() {
        // Nothing is held, and asking whose place is free takes system calls.
        return whole;
    }
    share_with_child();
    whole
}

/// Adds a child that is about to be made to the holders of all connections that this process has.
fn share_with_child() {
    let Some(child) = family::expect_child() else { return };
    if !hold_for(child) {
        unnamed::expect();
    }
}

/// Adds the process with that place to the holders of all connections that this process has. False if one has no room.
fn hold_for(place: usize) -> bool {
    let mut is_named = true;
    table::for_each_conn(|_, at| {
        is_named &= members::add(&at.conn.holders, place);
        if !at.conn.is_generation(at.generation) {
            // The slot is another connection's by now: the parent of a copy that an inline call has made goes on.
            members::strike(&at.conn.holders, place);
        }
    });
    is_named
}

/// After fork, in both.
fn fork_done(whole: bool) {
    if !whole {
        return;
    }
    filters::release();
    linger::release();
    hazard::release();
    pair::lent::release();
    ops::keep::release();
    closer::release();
    peers::release();
    pair::release();
    handler::release();
    kernel_sockets::release();
    sets::release();
    reactor::release();
    meeting::release();
    credentials::release();
    section::leave();
}

/// After fork, in the child.
fn born(whole: bool) {
    if process::is_confined() {
        process::own_quietly();
        fork_done(whole);
        return;
    }
    process::own();
    crate::thread::forked();
    kernel_sockets::forked();
    family::share_threads();
    fork_done(whole);
    family::born();
    if unnamed::may_be() {
        table::for_each_conn(|_, at| at.conn.inherited());
    }
    members::born();
    table::forked();
    pair::forked();
    peers::forked();
    sets::forked();
    pollset::forked();
    ops::keep::forked();
    linger::forked();
    memory::forked();
    handler::forked();
    if whole {
        kept::forked();
    }
}

/// This process is a copy that an inline system call has made, and its parent does not know. It joins,
/// and holds what its parent holds: what the parent has closed meanwhile is over.
fn adopt() {
    let before = errno();
    thread::forked_without_libc();
    share_with_child();
    born(false);
    set_errno(before);
}

/// From now on forks are prepared for.
pub(crate) fn start() {
    process::adopt_by(adopt);
    // SAFETY: plain functions without captured state; registered once.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
