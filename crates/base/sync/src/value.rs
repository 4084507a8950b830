//! Values behind robust locks: a thread that dies inside does not keep the others out.

use crate::lock::{Acquired, RobustLock};
use crate::owners::Local;
use crate::rank;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value behind a robust lock, with the lock's place in the order of locks ([`rank`]).
#[derive(Debug)]
pub struct RobustBox<T, const RANK: u8 = { rank::NONE }> {
    lock: RobustLock<Local, RANK>,
    /// Whether a thread is inside [`RobustBox::with`], or has left that by a jump or its death. For assertions.
    inside: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `with` only, which holds the lock.
unsafe impl<T: Send, const RANK: u8> Sync for RobustBox<T, RANK> {}

impl<T, const RANK: u8> RobustBox<T, RANK> {
    /// A value that no thread holds.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        RobustBox {
            lock: RobustLock::new(),
            inside: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// A value that no thread holds.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        RobustBox {
            lock: RobustLock::new(),
            inside: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock for the time of a fork, so that the child gets a whole value.
    pub fn hold(&self) {
        self.lock.hold();
        self.inside.store(false, Ordering::Relaxed);
    }

    /// After the fork, in both.
    pub fn release(&self) {
        self.lock.release();
    }

    /// Calls `f` with the value, under the lock. Also for the thread that [holds](RobustBox::hold) it.
    ///
    /// `f` does not ask for the same value again: with debug assertions that panics. A thread that has left `f` by a jump
    /// out of a signal handler gets the value anew.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let held = self.lock.guard();
        let is_again =
            held.acquired() == Acquired::Reentered && self.inside.load(Ordering::Relaxed);
        debug_assert!(!is_again, "a value that is asked for inside itself");
        self.inside.store(true, Ordering::Relaxed);
        // SAFETY: the lock is held. What this thread had before is in use no more: it holds the lock for a fork, or has
        // left `f`.
        let result = f(unsafe { &mut *self.value.get() });
        self.inside.store(false, Ordering::Relaxed);
        result
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn thread_that_holds_a_value_for_a_fork_may_use_the_value() {
        let value: RobustBox<u32> = RobustBox::new(1);
        value.hold();
        value.with(|value| *value += 1);
        value.release();
        assert_eq!(value.with(|value| *value), 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a value that is asked for inside itself")]
    fn value_is_not_given_out_twice() {
        let value: RobustBox<u32> = RobustBox::new(1);
        value.with(|_| value.with(|_| ()));
    }
}
