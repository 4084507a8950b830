//! A slot for one result from another thread.

use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Time for which a thread polls before it sleeps.
pub(crate) const SPIN: Duration = Duration::from_micros(50);

/// Locks a mutex, also after a panic of its last holder: data under these mutexes is consistent at any time.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the end of a timeout that begins now. Returns `None`, which means never, for no timeout and for one beyond
/// the clock's range.
pub(crate) fn after(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// Sleeps until another thread wakes this one, or until `until`. Returns false after `until`.
pub(crate) fn sleep<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> (MutexGuard<'a, T>, bool) {
    match until {
        None => (condition.wait(guard).unwrap_or_else(PoisonError::into_inner), true),
        Some(until) => {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (guard, false);
            }
            let woken = condition.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
            (woken.0, true)
        }
    }
}

/// A result that is set once.
#[derive(Debug)]
pub(crate) struct Slot<T>(Arc<(Mutex<Option<T>>, Condvar)>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Slot(self.0.clone())
    }
}

impl<T> Slot<T> {
    pub(crate) fn new() -> Slot<T> {
        Slot(Arc::new((Mutex::new(None), Condvar::new())))
    }

    /// Sets the result. Returns false if there is one already.
    pub(crate) fn put(&self, result: T) -> bool {
        let mut place = lock(&self.0.0);
        if place.is_some() {
            return false;
        }
        *place = Some(result);
        self.0.1.notify_all();
        true
    }

    /// Takes the result, if there is one.
    pub(crate) fn take(&self) -> Option<T> {
        lock(&self.0.0).take()
    }

    /// Waits for the result, until `until`.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Option<T> {
        let mut place = lock(&self.0.0);
        loop {
            if let Some(result) = place.take() {
                return Some(result);
            }
            let woken;
            (place, woken) = sleep(&self.0.1, place, until);
            if !woken {
                return place.take();
            }
        }
    }
}
