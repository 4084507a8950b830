//! Sleeping on a word of memory that processes share.

use crate::call::{Prepared, Result, Sysno};
use crate::clock::timespec;
use core::sync::atomic::AtomicU32;

/// Sleeps while `word` holds `expected`, until woken or until `timeout_ns` from now have passed.
///
/// # Errors
/// `EAGAIN` if the word had changed already, `ETIMEDOUT`, or `EINTR` for a signal.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> Result<()> {
    wait_by(Prepared::make, word, expected, timeout_ns)
}

/// [`wait`], by the system call `make`.
///
/// # Errors
/// As there, and what `make` says.
pub fn wait_by(
    make: impl FnOnce(Prepared) -> Result<usize>,
    word: &AtomicU32,
    expected: u32,
    timeout_ns: Option<u64>,
) -> Result<()> {
    let ts = timeout_ns.map(timespec);
    let ts = ts.as_ref().map_or(core::ptr::null(), core::ptr::from_ref) as usize;
    // The word is a live atomic, the timespec outlives the call. The futex is not private: the other process
    // waits on the same page of a shared mapping.
    let (word, wait) = (word.as_ptr() as usize, libc::FUTEX_WAIT as usize);
    make(Prepared::new(Sysno::futex, [word, wait, expected as usize, ts, 0, 0])).map(drop)
}

/// Wakes up to `count` sleepers on `word`; returns how many there were.
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    // SAFETY: the word is a live atomic; waking reads nothing through it.
    unsafe { syscalls::syscall!(Sysno::futex, word.as_ptr(), libc::FUTEX_WAKE, count) }.unwrap_or(0)
}
