//! Converts between C's results and Rust's, and accesses the program's memory.

use libc::sigset_t;
use sovia_signal::access::{self, BadAddress};
use sovia_signal::chain;
use sovia_sockets::{Errno, Outcome};

/// Converts an outcome to the return value of a libc function. Sets `errno` if the outcome is an error.
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
    // SAFETY: glibc's pointer to this thread's `errno` is valid while the thread lives.
    unsafe { *libc::__errno_location() = e };
}

/// Returns this thread's `errno`.
#[inline]
pub fn errno() -> i32 {
    // SAFETY: glibc's pointer to this thread's `errno` is valid while the thread lives.
    unsafe { *libc::__errno_location() }
}

/// Converts a libc function's return value to an outcome. If the value is negative, the error is `errno`.
#[inline]
pub fn outcome(result: isize) -> Outcome {
    usize::try_from(result).map_err(|_| errno())
}

/// Returns true for a pointer into the first page. The kernel never maps this page.
#[inline]
pub fn is_bad<T>(pointer: *const T) -> bool {
    (pointer as usize) < 4096
}

/// Returns true if a function may read the program's structures for a call that may not concern Sovia. Until
/// Sovia's fault handler is in place, the result is false, because a bad address would kill the process. The
/// handler is in place before the table has a connection or an epoll instance. In a process that never gets Sovia's
/// signal handlers, the result is true.
#[inline]
pub fn may_look() -> bool {
    !chain::is_started() || chain::is_guarding()
}

/// Copies a value from the program's memory. The pointer may have any alignment.
///
/// # Safety
/// Every bit pattern must be a valid `T`. The program must own the memory, which may be unmapped.
///
/// # Errors
/// `EFAULT` if the memory cannot be read.
#[inline]
pub unsafe fn take<T: Copy>(from: *const T) -> Result<T, Errno> {
    // SAFETY: the caller guarantees that every bit pattern is a valid `T` and that the program owns the memory.
    unsafe { access::load(from) }.map_err(|BadAddress| libc::EFAULT)
}

/// Like [`take`], but returns `None` for a null pointer.
///
/// # Safety
/// Same as [`take`].
///
/// # Errors
/// Same as [`take`].
#[inline]
pub unsafe fn take_if<T: Copy>(from: *const T) -> Result<Option<T>, Errno> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees that every bit pattern is a valid `T` and that the program owns the memory.
    unsafe { take(from) }.map(Some)
}

/// Stores a value in the program's memory. The pointer may have any alignment.
///
/// # Safety
/// `T` must have no padding. The program must own the memory, which may be unmapped.
///
/// # Errors
/// `EFAULT` if the memory cannot be written.
#[inline]
pub unsafe fn give<T: Copy>(to: *mut T, value: T) -> Result<(), Errno> {
    // SAFETY: the caller guarantees that `T` has no padding and that the program owns the memory.
    unsafe { access::store(to, value) }.map_err(|BadAddress| libc::EFAULT)
}

/// Copies the signal mask that a call uses while it waits. Removes the signals of memory faults from the copy,
/// because they must reach Sovia's fault handler. Returns `None` for a null pointer.
///
/// # Safety
/// The program must own the memory, which may be unmapped.
///
/// # Errors
/// `EFAULT` if the mask cannot be read.
#[inline]
pub unsafe fn take_mask(from: *const sigset_t) -> Result<Option<sigset_t>, Errno> {
    // SAFETY: the kernel's part of a `sigset_t` is its first 8 bytes, in which every bit pattern is valid. All
    // zeros are a valid `sigset_t`.
    unsafe {
        let Some(bits) = take_if(from.cast::<u64>())? else { return Ok(None) };
        let mut mask: sigset_t = core::mem::zeroed();
        (&raw mut mask).cast::<u64>().write(bits & !chain::MEMORY_FAULTS);
        Ok(Some(mask))
    }
}

#[cfg(test)]
mod tests;
