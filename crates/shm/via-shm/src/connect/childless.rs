//! Descriptors that a forked child closes at once: a name that it held would stay taken in its parent, for as long
//! as the child lives.
//!
//! libc's `fork` sees to it. A child of `_Fork` or `clone` keeps them until it executes a program or ends.

use sovia_sys::call::{self, RawFd};
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static ALL: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

thread_local! {
    /// Between the beginning of a fork and its end in each of the two processes.
    static HELD: RefCell<Option<MutexGuard<'static, Vec<RawFd>>>> = const { RefCell::new(None) };
}

/// The list, locked; libc's `fork` waits for it. A thread holds it from before it makes such a descriptor until that is in
/// the list, and from before it takes one out until that is closed.
pub(crate) fn all() -> MutexGuard<'static, Vec<RawFd>> {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: the three are what `fork` calls: in one thread, and in its copy in the child.
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
                // What owns it in this process's memory belongs to threads that are not here.
                let _ = call::close(fd);
            }
        }
    });
}
