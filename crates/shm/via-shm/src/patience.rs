//! How long a thread waits: deadlines, how long it spins before it sleeps, and how long it sleeps at a time.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use sovia_sys::clock;

/// Looks at the queue between two looks at the clock.
pub(crate) const LOOKS: u32 = 16;
/// Bounds of the time to spin (nanoseconds): what waking a sleeper costs, several times over; and
/// what is never worth saving.
const SPIN_MAX: u32 = 50_000;
const SPIN_MIN: u32 = 2_000;
/// A sleeper looks again after this time at the latest (nanoseconds): a peer may have spoiled the
/// words by which it should have been woken.
pub(crate) const NAP_MAX: u64 = 1_000_000_000;

/// A point in time (nanoseconds of the monotonic clock); `None`: never.
pub(crate) type Deadline = Option<u64>;

/// The time left until a deadline; `None` if there is none.
pub(crate) fn left(deadline: Deadline) -> Option<u64> {
    deadline.map(|at| at.saturating_sub(clock::now_ns()))
}

/// When a timeout from now is over.
pub(crate) fn deadline(timeout: Option<Duration>) -> Deadline {
    let timeout = u64::try_from(timeout?.as_nanos()).ok()?;
    clock::now_ns().checked_add(timeout)
}

/// The longest spin of what is made on a NIC from now on (nanoseconds).
#[derive(Debug)]
pub(crate) struct SpinLimit(AtomicU32);

impl Default for SpinLimit {
    fn default() -> SpinLimit {
        SpinLimit(AtomicU32::new(SPIN_MAX))
    }
}

impl SpinLimit {
    /// At most what is spun by default.
    pub(crate) fn set(&self, longest: Duration) {
        let ns = u32::try_from(longest.as_nanos()).unwrap_or(SPIN_MAX).min(SPIN_MAX);
        self.0.store(ns, Ordering::Relaxed);
    }

    /// What a queue that is made now may spin.
    pub(crate) fn budget(&self) -> Budget {
        let most = self.0.load(Ordering::Relaxed);
        Budget { now: AtomicU32::new(most), most }
    }
}

/// For how long it has paid to spin on a queue, and for how long it may be spun at most (nanoseconds).
#[derive(Debug)]
pub(crate) struct Budget {
    now: AtomicU32,
    most: u32,
}

impl Budget {
    pub(crate) fn get(&self) -> u64 {
        u64::from(self.now.load(Ordering::Relaxed))
    }

    /// A wait is over that took `waited` nanoseconds, asleep at its end or not.
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

#[cfg(all(test, not(loom)))]
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
