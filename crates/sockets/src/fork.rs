//! Forks. The child gets a copy of all memory, in a consistent state.
//!
//! The same steps surround each libc call that makes a process with a copy of this process's memory. For `fork`,
//! handlers of pthread_atfork run these steps. For `_Fork`, `clone` and `syscall`, libc runs no handlers, so the
//! hooks of these functions call [`before`]. A child made by an inline system call joins the family when the
//! library detects the child ([`crate::process`]).

use crate::conn::unnamed;
use crate::process::{errno, set_errno};
use crate::{
    closer, credentials, epoll_sets, exec, family, filters, handler, kernel_sockets, linger,
    memory, ops, other_families, pair, peers, pollset, process, process_slots, progress, reactor,
    rendezvous, stream, table, tcp_reasons,
};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use sovia_sync::{critical_section, hazard, thread};

/// The program's `errno` before the fork in progress.
static ERRNO: AtomicI32 = AtomicI32::new(0);
/// Set if the fork in progress has taken all locks.
static WHOLE: AtomicBool = AtomicBool::new(false);

/// Prepares for a fork. Of all handlers, this one runs last before the kernel's call, and [`parent`] runs first
/// after the call. Handlers that the program registers later run outside of both.
extern "C" fn prepare() {
    let before = errno();
    let whole = forking();
    WHOLE.store(whole, Ordering::Relaxed);
    ERRNO.store(before, Ordering::Relaxed);
    set_errno(0);
}

extern "C" fn parent() {
    // libc does not tell these handlers if a child was made, but a failed fork sets errno.
    let whole = WHOLE.load(Ordering::Relaxed);
    match errno() {
        0 => {
            let before = ERRNO.load(Ordering::Relaxed);
            fork_done(whole);
            set_errno(before);
        }
        failure => {
            process_slots::expect_nobody();
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

/// Returns true if all threads of the process but one belong to the library.
pub fn is_threaded_by_us() -> bool {
    crate::thread::have_been() && crate::thread::may_be_single()
}

/// Prepares for a call that makes a child on this process's memory without making the parent wait. Starts this
/// process's progress thread if it is missing, because the child has no progress thread of its own.
pub fn sharing_memory() {
    kernel_sockets::ensure();
    other_families::shares_memory();
}

/// State between [`before`] and the end of a call that may make a child.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Prepared {
    whole: bool,
    errno: i32,
}

/// Prepares for a call that makes a child with a copy of this process's memory. For calls that do not run the
/// handlers of pthread_atfork.
pub fn before() -> Prepared {
    let errno = errno();
    Prepared { whole: forking(), errno }
}

impl Prepared {
    /// Called in the parent after the call. `made` says if there is a child.
    pub fn in_parent(self, made: bool) {
        let after = errno();
        if !made {
            process_slots::expect_nobody();
        }
        fork_done(self.whole);
        set_errno(if made { self.errno } else { after });
    }

    /// Called in the child after the call. `libc` says if libc knows of the child.
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

/// Prepares for a fork. Counts the child in advance as a holder of every connection of this process. So neither
/// process takes itself for the last holder. Takes all locks, so that no other thread is changing data while the
/// kernel copies it. Returns false if a signal handler forks while the calling thread itself changes such data. The
/// child then continues this change as well.
fn forking() -> bool {
    table::note_shared();
    let whole = !critical_section::is_inside();
    if whole {
        // Send combined bytes now. The thread that would send them later stays in the parent, which may end.
        stream::combine::before_waiting();
        if !process::is_under_seccomp() {
            progress::end_for_fork();
        }
        // Defer signals. A handler that forks would wait for data that this thread holds, and some of this data has
        // no lock.
        critical_section::enter();
        credentials::hold();
        process::hold_recording();
        rendezvous::hold();
        reactor::hold();
        epoll_sets::hold();
        // Take this lock before the lock of the pairs. A thread that starts the progress thread holds this lock
        // while it makes a doorbell.
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
    epoll_sets::copying();
    if process::is_under_seccomp() {
        // Reserve no process slot for the child. This process holds no connection any more, and the search for a
        // free slot needs system calls.
        return whole;
    }
    share_with_child();
    whole
}

/// Adds the coming child to the holders of all connections of this process.
fn share_with_child() {
    let Some(child) = family::expect_child() else { return };
    if !hold_for(child) {
        unnamed::expect();
    }
}

/// Adds the process with slot `slot` to the holders of all connections of this process. Returns false if a
/// connection has no room for the process's name.
fn hold_for(slot: usize) -> bool {
    let mut is_named = true;
    table::for_each_conn(|_, at| {
        is_named &= process_slots::add(&at.conn.references, slot);
        if !at.conn.is_generation(at.generation) {
            // The connection's slot belongs to another connection by now. This can happen after an inline system
            // call, because the parent continues while the child joins.
            process_slots::strike(&at.conn.references, slot);
        }
    });
    is_named
}

/// Releases the locks that [`forking`] has taken, in parent and child. Does nothing if [`forking`] returned false.
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
    epoll_sets::release();
    reactor::release();
    rendezvous::release();
    process::release_recording();
    credentials::release();
    critical_section::leave();
}

/// Makes a forked child a process of the family. Called in the child.
fn born(whole: bool) {
    if process::is_under_seccomp() {
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
    exec::forked();
    process_slots::born();
    table::forked();
    pair::forked();
    peers::forked();
    epoll_sets::forked();
    pollset::forked();
    ops::keep::forked();
    linger::forked();
    memory::forked();
    handler::forked();
    if whole {
        tcp_reasons::forked();
    }
}

/// Makes this process join the family. This process is a copy made by an inline system call, which the parent's
/// library has not noticed. The copy holds the connections of its parent, except those that the parent has closed
/// meanwhile.
fn adopt() {
    let before = errno();
    thread::forked_without_libc();
    share_with_child();
    born(false);
    set_errno(before);
}

/// Registers the handlers for later forks.
pub(crate) fn start() {
    process::adopt_by(adopt);
    // SAFETY: the three functions have no captured state, and they are registered once.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
