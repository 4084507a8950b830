//! Sleeps on a futex word in memory that processes share.

use crate::call::{Prepared, Result, Sysno};
use crate::clock::timespec;
use core::sync::atomic::AtomicU32;

/// Sleeps while `word` holds `expected`, until a thread wakes it or `timeout_ns` have passed. `None` means no
/// limit.
///
/// # Errors
/// `EAGAIN` if the word had changed already, `ETIMEDOUT`, or `EINTR` for a signal.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> Result<()> {
    wait_by(Prepared::make, word, expected, timeout_ns)
}

/// Like [`wait`], but `make` makes the system call.
///
/// # Errors
/// Those of [`wait`] and of `make`.
pub fn wait_by(
    make: impl FnOnce(Prepared) -> Result<usize>,
    word: &AtomicU32,
    expected: u32,
    timeout_ns: Option<u64>,
) -> Result<()> {
    let ts = timeout_ns.map(timespec);
    let ts = ts.as_ref().map_or(core::ptr::null(), core::ptr::from_ref) as usize;
    // The word is a live atomic, and the timespec outlives the call. The futex is not private, because the other
    // process waits on the same page of a shared mapping.
    let (word, wait) = (word.as_ptr() as usize, libc::FUTEX_WAIT as usize);
    make(Prepared::new(Sysno::futex, [word, wait, expected as usize, ts, 0, 0])).map(drop)
}

/// Wakes up to `count` threads that sleep on `word`. Returns the number of threads that were woken.
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    // SAFETY: the word is a live atomic, and the call accesses no memory through its address.
    unsafe { syscalls::syscall!(Sysno::futex, word.as_ptr(), libc::FUTEX_WAKE, count) }.unwrap_or(0)
}
