//! Values behind robust locks: a thread that dies inside does not keep the others out.

use sovia_sys::RobustLock;

/// A value behind a robust lock.
#[derive(Debug)]
pub(crate) struct RobustBox<T> {
    lock: RobustLock,
    value: core::cell::UnsafeCell<T>,
}

// SAFETY: the value is reached through `with` only, which holds the lock.
unsafe impl<T: Send> Sync for RobustBox<T> {}

impl<T> RobustBox<T> {
    pub(crate) const fn new(value: T) -> RobustBox<T> {
        RobustBox { lock: RobustLock::new(), value: core::cell::UnsafeCell::new(value) }
    }

    /// Around fork: see [`crate::fork`].
    pub(crate) fn hold(&self) {
        self.lock.lock();
    }

    pub(crate) fn release(&self) {
        self.lock.unlock();
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock is held, so this is the only reference.
        let result = f(unsafe { &mut *self.value.get() });
        self.lock.unlock();
        result
    }
}
