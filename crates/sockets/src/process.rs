//! This process, and the children that it forks.

use crate::ops;
use core::sync::atomic::{AtomicI32, Ordering};

/// The process whose tables these are. A vfork'ed child runs on our memory under another id.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Whether the caller is a vfork'ed child: it may use what we know, but not change it.
pub fn is_borrowed() -> bool {
    OWNER.load(Ordering::Relaxed) != crate::process_id()
}

/// This process's id, as it was noted at its start: no system call.
#[inline]
pub fn owner() -> i32 {
    OWNER.load(Ordering::Relaxed)
}

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
    ops::forking();
    ERRNO.store(before, Ordering::Relaxed);
    set_errno(0);
}

extern "C" fn parent() {
    // Nobody tells these handlers whether there is a child, but a failure leaves its number.
    match errno() {
        0 => {
            ops::fork_done();
            set_errno(ERRNO.load(Ordering::Relaxed));
        }
        failure => {
            ops::fork_failed();
            set_errno(failure);
        }
    }
}

extern "C" fn child() {
    OWNER.store(crate::process_id(), Ordering::Relaxed);
    ops::forked();
    set_errno(ERRNO.load(Ordering::Relaxed));
}

pub(crate) fn start() {
    OWNER.store(crate::process_id(), Ordering::Relaxed);
    // SAFETY: plain functions without captured state; registered once.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
