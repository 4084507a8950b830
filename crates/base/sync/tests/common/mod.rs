//! Processes that take locks beside a test's own.

use sovia_sync::thread;

/// A child of libc's fork that runs `f` and leaves.
pub(crate) fn fork(f: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `f`, which uses locks and system calls, and leaves at once.
    match unsafe { libc::fork() } {
        0 => {
            thread::forked();
            f();
            sovia_sys::call::exit_now();
        }
        pid => pid,
    }
}

/// Waits until a child has ended.
pub(crate) fn reap(pid: i32) {
    let mut status = 0;
    // SAFETY: waits for a child of this test's.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
}
