//! Values behind robust locks. A thread that dies while it holds a value does not lock out other threads.

use crate::lock::{Acquired, RobustLock};
use crate::owners::Local;
use crate::rank;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value behind a robust lock, which has a rank in the order of locks ([`rank`]).
#[derive(Debug)]
pub struct RobustBox<T, const RANK: u8 = { rank::NONE }> {
    lock: RobustLock<Local, RANK>,
    /// Set while a thread is inside [`RobustBox::with`], or after a thread has left `with` by a jump or by its
    /// death. Used only by an assertion.
    inside: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: threads reach the value only through `with`, which holds the lock, and `T` is `Send`.
unsafe impl<T: Send, const RANK: u8> Sync for RobustBox<T, RANK> {}

impl<T, const RANK: u8> RobustBox<T, RANK> {
    /// Returns a box that no thread holds.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        RobustBox {
            lock: RobustLock::new(),
            inside: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns a box that no thread holds.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        RobustBox {
            lock: RobustLock::new(),
            inside: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock for the time of a fork, so that the child gets a complete value.
    pub fn hold(&self) {
        self.lock.hold();
        self.inside.store(false, Ordering::Relaxed);
    }

    /// Releases the lock after a fork, in parent and child.
    pub fn release(&self) {
        self.lock.release();
    }

    /// Calls `f` with the value, under the lock. The thread that [holds](RobustBox::hold) the value may call
    /// this, too.
    ///
    /// `f` must not ask for the same value again: builds with debug assertions panic. A thread that has left `f`
    /// by a jump out of a signal handler may ask again.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let held = self.lock.guard();
        let is_again =
            held.acquired() == Acquired::Reentered && self.inside.load(Ordering::Relaxed);
        debug_assert!(!is_again, "a value that is asked for inside itself");
        self.inside.store(true, Ordering::Relaxed);
        // SAFETY: this thread holds the lock. An earlier reference of this thread is out of use. Either the
        // thread holds the lock for a fork, or it has left the earlier `f` by a jump.
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
