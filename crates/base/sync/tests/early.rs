//! A thread that takes a lock before `robust_entry::start` has found the place of glibc's robust lists.

#![cfg(all(not(loom), not(miri)))]

use sovia_sync::{RobustLock, robust_entry};
use sovia_sys::call;

/// Returns true if the kernel would mark an entry at the calling thread's end: the list has more than its head.
fn has_robust_entry() -> bool {
    let (head, _) = call::robust_list().expect("glibc's list");
    // SAFETY: the kernel reports that the calling thread's list begins at `head` with a pointer.
    let first = unsafe { (head as *const usize).read() };
    first != head
}

static LOCK: RobustLock = RobustLock::new();

#[test]
fn thread_has_a_robust_entry_after_start() {
    LOCK.lock();
    LOCK.unlock();
    assert!(!has_robust_entry(), "nothing is known yet");
    robust_entry::start();
    LOCK.lock();
    LOCK.unlock();
    assert!(has_robust_entry(), "the thread is still known by its id");
}
