//! Forks: the child has a copy of everything, in a consistent state.
//!
//! The same steps surround each libc call that makes a process with a copy of this process's memory. Handlers of
//! pthread_atfork run these steps for `fork`. For `_Fork`, `clone` and `syscall`, libc runs no handlers, so their hooks
//! call [`before`]. A child that no libc call has made joins the family when it is detected ([`crate::process`]).

use crate::conn::unnamed;
use crate::{
    closer, credentials, family, filters, handler, inheritance, kept, kernel_sockets, linger,
    meeting, members, memory, ops, pair, peers, pollset, process, progress, reactor, sets, stream,
    table,
};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use sovia_sync::{hazard, section, thread};

fn errno() -> i32 {
    // SAFETY: glibc returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(e: i32) {
    // SAFETY: glibc returns a valid pointer to this thread's errno, which only this thread accesses.
    unsafe { *libc::__errno_location() = e };
}

/// The program's `errno` during a fork.
static ERRNO: AtomicI32 = AtomicI32::new(0);
/// Set if the fork in progress has taken all locks.
static WHOLE: AtomicBool = AtomicBool::new(false);

/// Runs last before the kernel's call, and [`parent`] runs first after it. Handlers that the program registers later
/// run around both.
extern "C" fn prepare() {
    let before = errno();
    let whole = forking();
    WHOLE.store(whole, Ordering::Relaxed);
    ERRNO.store(before, Ordering::Relaxed);
    set_errno(0);
}

extern "C" fn parent() {
    // libc does not tell these handlers whether there is a child, but a failed fork sets errno.
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

/// Returns true if the process has several threads only because the library has some.
pub fn is_threaded_by_us() -> bool {
    crate::thread::have_been() && crate::thread::may_be_single()
}

/// Called before a call that makes a child on this process's memory, which does not end at once. The child has no
/// progress thread of its own.
pub fn sharing_memory() {
    kernel_sockets::ensure();
    inheritance::shares_memory();
}

/// The preparations for a child.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Prepared {
    whole: bool,
    errno: i32,
}

/// Prepares for a call that makes a child with a copy of this memory, but runs no handlers of libc.
pub fn before() -> Prepared {
    let errno = errno();
    Prepared { whole: forking(), errno }
}

impl Prepared {
    /// Called after the call in the parent. `made`: there is a child.
    pub fn in_parent(self, made: bool) {
        let after = errno();
        if !made {
            members::expect_nobody();
        }
        fork_done(self.whole);
        set_errno(if made { self.errno } else { after });
    }

    /// Called after the call in the child. `libc`: libc knows of the child.
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

/// Prepares for a fork. Counts the child in advance as a holder of every connection of this process. So neither process
/// takes itself for the last holder. Also waits until no other thread is changing data that the child gets a copy of.
/// Returns false if a signal handler forks while the calling thread itself changes such data. The child then continues
/// this change as well.
fn forking() -> bool {
    table::note_shared();
    let whole = !section::is_inside();
    if whole {
        // The thread that would send the combined bytes later stays in the parent, which may end.
        stream::combine::before_waiting();
        if !process::is_confined() {
            progress::end_for_fork();
        }
        // A handler that forks would wait for data of this thread, and not all of the data has a lock.
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
        // No lock is held, and the search for a free slot needs system calls.
        return whole;
    }
    share_with_child();
    whole
}

/// Adds a coming child to the holders of all connections of this process.
fn share_with_child() {
    let Some(child) = family::expect_child() else { return };
    if !hold_for(child) {
        unnamed::expect();
    }
}

/// Adds the process with slot `place` to the holders of all connections of this process. Returns false if a connection
/// has no room for its name.
fn hold_for(place: usize) -> bool {
    let mut is_named = true;
    table::for_each_conn(|_, at| {
        is_named &= members::add(&at.conn.holders, place);
        if !at.conn.is_generation(at.generation) {
            // The slot belongs to another connection by now: the parent continues after an inline system call has
            // copied its memory.
            members::strike(&at.conn.holders, place);
        }
    });
    is_named
}

/// Releases all locks after a fork, in parent and child.
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

/// Called after a fork, in the child.
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

/// Makes this process join the family. An inline system call has made this process as a copy, and its parent's library
/// does not know. The copy holds the connections of its parent. Connections that the parent has closed meanwhile are
/// over.
fn adopt() {
    let before = errno();
    thread::forked_without_libc();
    share_with_child();
    born(false);
    set_errno(before);
}

/// Prepares for forks from now on.
pub(crate) fn start() {
    process::adopt_by(adopt);
    // SAFETY: the three functions have no captured state, and they are registered once.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
