//! The lock of a work queue.
//!
//! It is held for a copy at most, and taken and given back once per message: taking it costs one
//! atomic exchange, giving it back a plain store. Somebody who finds it held for longer than a
//! copy takes lets others run.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::call;

/// Looks at a held lock before the processor is offered to others; a few microseconds.
const SPINS: u32 = 100;

/// A value that one thread at a time may use.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Spin<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time, which is what `Send` allows.
unsafe impl<T: Send> Sync for Spin<T> {}

/// The value, until dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, T>(&'a Spin<T>);

impl<T> Spin<T> {
    pub(crate) fn new(value: T) -> Spin<T> {
        Spin { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        if self.held.swap(true, Ordering::Acquire) {
            self.lock_slow();
        }
        Held(self)
    }

    #[cold]
    fn lock_slow(&self) {
        let mut spins = 0;
        loop {
            while self.held.load(Ordering::Relaxed) {
                spins += 1;
                if spins < SPINS {
                    core::hint::spin_loop();
                } else {
                    call::sched_yield();
                }
            }
            if !self.held.swap(true, Ordering::Acquire) {
                return;
            }
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this is the only `Held` of its lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_excludes() {
        let lock = Spin::new(0u64);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..50_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 200_000);
    }
}
