//! Counts a program's polls of a VI, from which the NIC's thread knows whether the VI needs the thread.

use core::sync::atomic::{AtomicU32, Ordering};

/// Number of polls of a VI by the program, and the number that the NIC's thread has seen.
pub(crate) struct Looks {
    /// Number of polls. Only threads that hold the VI's lock write it.
    count: AtomicU32,
    /// Number of polls at the NIC thread's last check.
    seen: AtomicU32,
    /// See [`Looks::patience`].
    patience: AtomicU32,
}

/// Initial and largest value of [`Looks::patience`], in milliseconds.
const PATIENCE: u32 = 4;
const PATIENCE_MAX: u32 = 32;

impl Looks {
    pub(super) fn new() -> Looks {
        let (count, seen, patience) = (AtomicU32::new(0), AtomicU32::new(0), PATIENCE.into());
        Looks { count, seen, patience }
    }

    /// Counts a poll. The caller must hold the VI's lock.
    #[inline]
    pub(crate) fn count(&self) {
        self.count.store(self.count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns true if the program has polled since the last call. Only the NIC's thread calls this.
    pub(crate) fn are_new(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        self.seen.swap(count, Ordering::Relaxed) != count
    }

    /// Returns the time until the NIC thread's next check, in milliseconds: a power of two.
    pub(crate) fn patience(&self) -> u64 {
        self.patience.load(Ordering::Relaxed).into()
    }

    /// Doubles the time between checks, after the program has polled.
    pub(crate) fn lengthen(&self) {
        let patience = self.patience.load(Ordering::Relaxed);
        self.patience.store((2 * patience).min(PATIENCE_MAX), Ordering::Relaxed);
    }

    /// Resets the time between checks to the shortest, because the program may not poll.
    pub(crate) fn shorten(&self) {
        self.patience.store(PATIENCE, Ordering::Relaxed);
    }
}
