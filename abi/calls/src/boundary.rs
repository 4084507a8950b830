//! Between C's results and ours.

use sovia_sockets::Outcome;

/// Turns an outcome into what libc functions return, with `errno` set on failure.
#[inline]
pub fn finish(outcome: Outcome) -> isize {
    match outcome {
        Ok(n) => n as isize,
        Err(e) => {
            set_errno(e);
            -1
        }
    }
}

/// Sets this thread's `errno`.
#[inline]
pub fn set_errno(e: i32) {
    // SAFETY: glibc's pointer to this thread's errno.
    unsafe { *libc::__errno_location() = e };
}

/// This thread's `errno`.
#[inline]
pub fn errno() -> i32 {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// A libc function's return value as an outcome.
#[inline]
pub fn outcome(result: isize) -> Outcome {
    usize::try_from(result).map_err(|_| errno())
}

/// A pointer into the first page, where nothing is ever mapped.
#[inline]
pub fn is_bad<T>(pointer: *const T) -> bool {
    (pointer as usize) < 4096
}
