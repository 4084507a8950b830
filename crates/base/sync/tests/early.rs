//! A thread that takes a lock before anything has looked where glibc keeps its threads' lists.

#![cfg(all(not(loom), not(miri)))]

use sovia_sync::{RobustLock, record};
use sovia_sys::call;

/// Whether the kernel would mark anything at the calling thread's end: its list leads to more than its own head.
fn has_record() -> bool {
    let (head, _) = call::robust_list().expect("glibc's list");
    // SAFETY: the calling thread's own list begins there with a pointer, by the kernel's word.
    let first = unsafe { (head as *const usize).read() };
    first != head
}

static LOCK: RobustLock = RobustLock::new();

#[test]
fn it_has_a_record_once_that_is_known() {
    LOCK.lock();
    LOCK.unlock();
    assert!(!has_record(), "nothing is known yet");
    record::start();
    LOCK.lock();
    LOCK.unlock();
    assert!(has_record(), "the thread is still known by its id");
}
