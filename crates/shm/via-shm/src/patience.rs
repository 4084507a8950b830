//! Limits for waiting threads: deadlines, the time to spin before a sleep, and the longest single sleep.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use sovia_sys::clock;

/// Number of looks at the queue between two looks at the clock.
pub(crate) const LOOKS: u32 = 16;
/// Longest time to spin before a sleep, in nanoseconds: several times the cost of waking a thread.
const SPIN_MAX: u32 = 50_000;
/// Shortest time to spin before a sleep, in nanoseconds. A shorter spin would save too little.
const SPIN_MIN: u32 = 2_000;
/// Time after which a sleeping thread looks again, in nanoseconds. A peer may have corrupted the words by which the
/// thread would have been woken.
pub(crate) const NAP_MAX: u64 = 1_000_000_000;

/// A time of the monotonic clock in nanoseconds; `None` for no deadline.
pub(crate) type Deadline = Option<u64>;

/// Returns the time left until a deadline; `None` if there is no deadline.
pub(crate) fn left(deadline: Deadline) -> Option<u64> {
    deadline.map(|at| at.saturating_sub(clock::now_ns()))
}

/// Returns the deadline for a timeout that starts now.
pub(crate) fn deadline(timeout: Option<Duration>) -> Deadline {
    let timeout = u64::try_from(timeout?.as_nanos()).ok()?;
    clock::now_ns().checked_add(timeout)
}

/// Longest spin of VIs and completion queues that are created later, in nanoseconds.
#[derive(Debug)]
pub(crate) struct SpinLimit(AtomicU32);

impl Default for SpinLimit {
    fn default() -> SpinLimit {
        SpinLimit(AtomicU32::new(SPIN_MAX))
    }
}

impl SpinLimit {
    /// Sets the longest spin; at most [`SPIN_MAX`].
    pub(crate) fn set(&self, longest: Duration) {
        let ns = u32::try_from(longest.as_nanos()).unwrap_or(SPIN_MAX).min(SPIN_MAX);
        self.0.store(ns, Ordering::Relaxed);
    }

    /// Returns the budget of a queue that is created now.
    pub(crate) fn budget(&self) -> Budget {
        let most = self.0.load(Ordering::Relaxed);
        Budget { now: AtomicU32::new(most), most }
    }
}

/// Time to spin on a queue before a sleep, adapted to earlier waits, and the upper limit of this time. In
/// nanoseconds.
#[derive(Debug)]
pub(crate) struct Budget {
    now: AtomicU32,
    most: u32,
}

impl Budget {
    pub(crate) fn get(&self) -> u64 {
        u64::from(self.now.load(Ordering::Relaxed))
    }

    /// Adapts the time to spin to a wait that took `waited` nanoseconds. `slept` is true if the thread slept at the
    /// end of the wait.
    pub(crate) fn learn(&self, waited: u64, slept: bool) {
        let now = self.now.load(Ordering::Relaxed);
        let next = if !slept {
            now.saturating_mul(2).min(self.most)
        } else if waited < u64::from(self.most) {
            self.most
        } else {
            (now / 2).max(SPIN_MIN).min(self.most)
        };
        if next != now {
            self.now.store(next, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_stays_below_its_limit() {
        let limit = SpinLimit::default();
        let usual = limit.budget();
        usual.learn(1 << 40, true);
        assert_eq!(usual.get(), u64::from(SPIN_MAX / 2));
        usual.learn(0, false);
        assert_eq!(usual.get(), u64::from(SPIN_MAX));
        limit.set(Duration::ZERO);
        let none = limit.budget();
        for (waited, slept) in [(0, false), (1, true), (1 << 40, true)] {
            none.learn(waited, slept);
            assert_eq!(none.get(), 0, "{waited} {slept}");
        }
        limit.set(Duration::from_secs(1));
        assert_eq!(limit.budget().get(), u64::from(SPIN_MAX));
    }
}
