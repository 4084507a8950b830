//! Values behind robust locks: a thread that dies inside does not keep the others out.

use crate::lock::RobustLock;
use crate::owners::Local;
use crate::rank;
use core::cell::UnsafeCell;

/// A value behind a robust lock, with the lock's place in the order of locks ([`rank`]).
#[derive(Debug)]
pub struct RobustBox<T, const RANK: u8 = { rank::NONE }> {
    lock: RobustLock<Local, RANK>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `with` only, which holds the lock.
unsafe impl<T: Send, const RANK: u8> Sync for RobustBox<T, RANK> {}

impl<T, const RANK: u8> RobustBox<T, RANK> {
    /// A value that no thread holds.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        RobustBox { lock: RobustLock::new(), value: UnsafeCell::new(value) }
    }

    /// A value that no thread holds.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        RobustBox { lock: RobustLock::new(), value: UnsafeCell::new(value) }
    }

    /// Takes the lock for the time of a fork, so that the child gets a whole value.
    pub fn hold(&self) {
        self.lock.hold();
    }

    /// After the fork, in both.
    pub fn release(&self) {
        self.lock.release();
    }

    /// Calls `f` with the value, under the lock.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let _held = self.lock.guard();
        // SAFETY: the lock is held, so this is the only reference.
        f(unsafe { &mut *self.value.get() })
    }
}
