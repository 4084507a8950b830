//! Processes that take locks at the same time as a test's own process.

use sovia_sync::thread;

/// Forks by libc's `fork`. The child runs `f` and exits. Returns the child's id.
pub(crate) fn fork(f: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `f`, which only uses locks and system calls, and then exits at once.
    match unsafe { libc::fork() } {
        0 => {
            thread::forked();
            f();
            sovia_sys::call::exit_now();
        }
        pid => pid,
    }
}

/// Waits until the child `pid` has ended.
pub(crate) fn reap(pid: i32) {
    let mut status = 0;
    // SAFETY: `waitpid` writes only to `status`, which outlives the call.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
}
