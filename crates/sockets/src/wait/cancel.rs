//! `pthread_cancel`: ends a thread in the library's calls as it does in the kernel's.

use core::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    fn pthread_setcanceltype(kind: i32, old: *mut i32) -> i32;
    fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32;
    fn pthread_testcancel();
}

/// Whether the program cancels threads.
static CANCELS: AtomicBool = AtomicBool::new(false);

/// The program is about to cancel a thread: from now on calls look whether theirs is to end.
pub fn cancelling() {
    CANCELS.store(true, Ordering::Relaxed);
}

/// The calling thread is Sovia's from here on: that the program has cancelled it, before it was forked perhaps,
/// does not end it.
pub(crate) fn ignore_cancellation() {
    const DISABLE: i32 = 1;
    // SAFETY: takes a number; what was chosen before is not asked for.
    unsafe { pthread_setcancelstate(DISABLE, core::ptr::null_mut()) };
}

/// Where a call begins that POSIX lets `pthread_cancel` end, though it need not wait. In no section.
#[inline]
pub(crate) fn cancellation_point() {
    if CANCELS.load(Ordering::Relaxed) {
        // SAFETY: takes nothing; the thread holds nothing of the library's.
        unsafe { pthread_testcancel() };
    }
}

/// Sleeps so that `pthread_cancel` ends the thread, as it would in the kernel's call. What the
/// sleeper had announced stays announced then: others look once too often for it, no more.
pub(crate) fn cancellable<T>(sleep: impl FnOnce() -> T) -> T {
    const ASYNCHRONOUS: i32 = 1;
    let mut old = 0;
    // SAFETY: in between runs one system call only, which holds no lock and no memory.
    unsafe {
        pthread_testcancel();
        pthread_setcanceltype(ASYNCHRONOUS, &raw mut old);
    }
    let result = sleep();
    // SAFETY: puts the program's own choice back.
    unsafe { pthread_setcanceltype(old, core::ptr::null_mut()) };
    result
}
