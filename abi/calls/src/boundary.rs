//! Between C's results and ours.

use libc::sigset_t;
use sovia_signal::access::{self, BadAddress};
use sovia_signal::chain;
use sovia_sockets::{Errno, Outcome};

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

/// Whether a structure of the program's may be looked at before it is known that the call is one for
/// Sovia. Where bad addresses would kill, only a process with a connection or an epoll instance on
/// record looks; and there they do not kill any more.
#[inline]
pub fn may_look() -> bool {
    !chain::is_started() || chain::is_guarding()
}

/// What the program's pointer points to, however it is aligned.
///
/// # Safety
/// Every pattern of bits is a `T`. The memory is the program's; it may be unmapped.
///
/// # Errors
/// `EFAULT` if it cannot be read.
#[inline]
pub unsafe fn take<T: Copy>(from: *const T) -> Result<T, Errno> {
    // SAFETY: the caller's contract.
    unsafe { access::load(from) }.map_err(|BadAddress| libc::EFAULT)
}

/// As [`take`]; `None` for a null pointer.
///
/// # Safety
/// As for [`take`].
///
/// # Errors
/// As for [`take`].
#[inline]
pub unsafe fn take_if<T: Copy>(from: *const T) -> Result<Option<T>, Errno> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    unsafe { take(from) }.map(Some)
}

/// Stores a value where the program's pointer points to.
///
/// # Safety
/// `T` has no padding.
///
/// # Errors
/// `EFAULT` if it cannot be written.
#[inline]
pub unsafe fn give<T: Copy>(to: *mut T, value: T) -> Result<(), Errno> {
    // SAFETY: the memory is the program's; the caller's contract.
    unsafe { access::store(to, value) }.map_err(|BadAddress| libc::EFAULT)
}

/// A signal mask of the program's, as a call may set it while it waits: faults stay unblocked.
///
/// # Safety
/// None beyond [`take`]'s.
///
/// # Errors
/// As for [`take`].
#[inline]
pub unsafe fn take_mask(from: *const sigset_t) -> Result<Option<sigset_t>, Errno> {
    // SAFETY: the kernel's part of a mask is its first 64 signals, as plain bits.
    unsafe {
        let Some(bits) = take_if(from.cast::<u64>())? else { return Ok(None) };
        let mut mask: sigset_t = core::mem::zeroed();
        (&raw mut mask).cast::<u64>().write(bits & !chain::MEMORY_FAULTS);
        Ok(Some(mask))
    }
}

#[cfg(test)]
mod tests;
