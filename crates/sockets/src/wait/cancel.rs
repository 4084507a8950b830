//! `pthread_cancel`: ends a thread that is in one of the library's calls, like in the kernel's call.

use core::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    fn pthread_setcanceltype(kind: i32, old: *mut i32) -> i32;
    fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32;
    fn pthread_testcancel();
}

/// Set once the program has cancelled a thread.
static CANCELS: AtomicBool = AtomicBool::new(false);

/// Records that the program cancels a thread. Called before the first cancellation. From now on calls check if
/// their thread must end.
pub fn cancelling() {
    CANCELS.store(true, Ordering::Relaxed);
}

/// Makes the calling thread ignore the program's cancellation, even one from before a fork. For a thread that
/// serves Sovia only.
pub(crate) fn ignore_cancellation() {
    const DISABLE: i32 = 1;
    // SAFETY: the function takes a number and accepts a null pointer for the old state.
    unsafe { pthread_setcancelstate(DISABLE, core::ptr::null_mut()) };
}

/// Ends the thread if the program has cancelled it. For calls that POSIX lets `pthread_cancel` end even if they
/// need not wait. Call it outside critical sections.
#[inline]
pub(crate) fn cancellation_point() {
    if CANCELS.load(Ordering::Relaxed) {
        // SAFETY: the function takes no argument. The thread holds none of the library's locks and memory, so it
        // may end here.
        unsafe { pthread_testcancel() };
    }
}

/// Calls `sleep` such that `pthread_cancel` ends the thread, like in the kernel's call. After a cancellation the
/// sleep stays announced, which only costs peers one unnecessary wake-up.
pub(crate) fn cancellable<T>(sleep: impl FnOnce() -> T) -> T {
    const ASYNCHRONOUS: i32 = 1;
    let mut old = 0;
    // SAFETY: `old` is a valid pointer. While cancellation is asynchronous, the thread makes one system call, and
    // holds no lock and no memory.
    unsafe {
        pthread_testcancel();
        pthread_setcanceltype(ASYNCHRONOUS, &raw mut old);
    }
    let result = sleep();
    // SAFETY: `old` is the type that `pthread_setcanceltype` has returned, and a null pointer is allowed.
    unsafe { pthread_setcanceltype(old, core::ptr::null_mut()) };
    result
}
