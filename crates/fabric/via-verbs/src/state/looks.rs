//! How often a program looks at a VI, by which the NIC's thread knows whether it is needed.

use core::sync::atomic::{AtomicU32, Ordering};

/// How often the program looks at a VI, as the NIC's thread sees it.
pub(crate) struct Looks {
    /// Counted by threads that have the VI's lock.
    count: AtomicU32,
    /// The count when the thread last saw it.
    seen: AtomicU32,
    /// See [`Looks::patience`].
    patience: AtomicU32,
}

/// Milliseconds, see [`Looks::patience`]: at first, and at most.
const PATIENCE: u32 = 4;
const PATIENCE_MAX: u32 = 32;

impl Looks {
    pub(super) fn new() -> Looks {
        let (count, seen, patience) = (AtomicU32::new(0), AtomicU32::new(0), PATIENCE.into());
        Looks { count, seen, patience }
    }

    /// The program looks. For threads that have the VI's lock.
    #[inline]
    pub(crate) fn count(&self) {
        self.count.store(self.count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// For the NIC's thread: whether the program has looked since it last asked.
    pub(crate) fn are_new(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        self.seen.swap(count, Ordering::Relaxed) != count
    }

    /// After how many milliseconds the thread asks again: a power of two.
    pub(crate) fn patience(&self) -> u64 {
        self.patience.load(Ordering::Relaxed).into()
    }

    /// The program has looked: the thread asks less often.
    pub(crate) fn lengthen(&self) {
        let patience = self.patience.load(Ordering::Relaxed);
        self.patience.store((2 * patience).min(PATIENCE_MAX), Ordering::Relaxed);
    }

    /// The program may not look at all: the thread asks soon.
    pub(crate) fn shorten(&self) {
        self.patience.store(PATIENCE, Ordering::Relaxed);
    }
}
