//! Forks: the child has a copy of everything, and nothing in it is half done.

use crate::{
    anchors, closer, family, handler, meeting, members, memory, ops, pair, pollset, process,
    reactor, sets, stream, table,
};
use core::sync::atomic::{AtomicI32, Ordering};
use sovia_sys::{fd, lock};

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

/// Runs as the last before the kernel is asked, and [`parent`] as the first after it: handlers that
/// the program registers later run around these.
extern "C" fn prepare() {
    let before = errno();
    forking();
    ERRNO.store(before, Ordering::Relaxed);
    set_errno(0);
}

extern "C" fn parent() {
    // Nobody tells these handlers whether there is a child, but a failure leaves its number.
    match errno() {
        0 => {
            fork_done();
            set_errno(ERRNO.load(Ordering::Relaxed));
        }
        failure => {
            fork_failed();
            set_errno(failure);
        }
    }
}

extern "C" fn child() {
    process::own();
    forked();
    set_errno(ERRNO.load(Ordering::Relaxed));
}

/// Before fork. The child will hold every connection that we hold: counted in advance, so that
/// neither can be the last by mistake. And nobody is in the middle of changing what it will get a
/// copy of.
fn forking() {
    // The thread that would do it later stays with the parent, which may end.
    stream::combine::before_waiting();
    meeting::hold();
    reactor::hold();
    sets::hold();
    // Before the pairs: who starts a thread makes a doorbell for it.
    anchors::hold();
    handler::hold();
    pair::hold();
    closer::hold();
    ops::keep::hold();
    pair::lent::hold();
    let bit = family::expect_child();
    table::for_each_conn(|_, at| {
        at.conn.holders.fetch_or(bit, Ordering::AcqRel);
    });
    fd::hold();
}

/// After fork, in the parent.
fn fork_done() {
    fd::release();
    pair::lent::release();
    ops::keep::release();
    closer::release();
    pair::release();
    handler::release();
    anchors::release();
    sets::release();
    reactor::release();
    meeting::release();
}

/// After a fork that has failed.
fn fork_failed() {
    members::expect_nobody();
    fork_done();
}

/// After fork, in the child.
fn forked() {
    lock::forked();
    fork_done();
    members::born();
    pair::forked();
    pollset::forked();
    ops::keep::forked();
    memory::forked();
    handler::forked();
}

/// From now on forks are prepared for.
pub(crate) fn start() {
    // SAFETY: plain functions without captured state; registered once.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
