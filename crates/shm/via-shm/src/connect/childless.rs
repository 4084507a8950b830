//! File descriptors of listening sockets, which a forked child closes at once. If the child kept them, the sockets'
//! names would stay in use while the child lives.
//!
//! libc's `fork` calls the handlers that close the file descriptors. A child of `_Fork` or `clone` keeps the file
//! descriptors until it executes a program or ends.

use sovia_sys::call::{self, RawFd};
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static ALL: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

thread_local! {
    /// The locked list, while this thread forks: from the start of `fork` to its end, in the parent and in the
    /// child.
    static HELD: RefCell<Option<MutexGuard<'static, Vec<RawFd>>>> = const { RefCell::new(None) };
}

/// Returns the list, locked. libc's `fork` waits for this lock. A thread holds the lock while it creates a descriptor
/// and adds it to the list. The thread also holds the lock while it removes a descriptor from the list and closes the
/// descriptor.
pub(crate) fn all() -> MutexGuard<'static, Vec<RawFd>> {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: the three functions have the signature that `pthread_atfork` expects. The functions only lock, unlock
        // and close descriptors, in the forking thread and in its copy in the child.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn prepare() {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    HELD.with(|held| *held.borrow_mut() = Some(all));
}

unsafe extern "C" fn parent() {
    HELD.with(|held| drop(held.borrow_mut().take()));
}

unsafe extern "C" fn child() {
    HELD.with(|held| {
        if let Some(mut all) = held.borrow_mut().take() {
            for fd in all.drain(..) {
                // The object that owns the descriptor belongs to a thread that does not exist in the child.
                let _ = call::close(fd);
            }
        }
    });
}
