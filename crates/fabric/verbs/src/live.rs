//! Numbers of the libraries' objects that this process has.

use core::sync::atomic::{AtomicUsize, Ordering};

/// Counts one kind of object.
#[derive(Debug)]
pub struct Count(AtomicUsize);

/// Queue pairs.
pub static PAIRS: Count = Count::new();
/// Registrations of memory.
pub static REGIONS: Count = Count::new();
/// Completion queues.
pub static CQS: Count = Count::new();
/// Identifiers of connections.
pub static IDS: Count = Count::new();

impl Count {
    const fn new() -> Count {
        Count(AtomicUsize::new(0))
    }

    pub(crate) fn more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fewer(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of existing objects.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
