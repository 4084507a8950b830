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

/// For how long it has paid to spin on a queue (nanoseconds).
#[derive(Debug)]
pub(crate) struct Budget(AtomicU32);

impl Default for Budget {
    fn default() -> Budget {
        Budget(AtomicU32::new(SPIN_MAX))
    }
}

impl Budget {
    pub(crate) fn get(&self) -> u64 {
        u64::from(self.0.load(Ordering::Relaxed))
    }

    /// A wait is over that took `waited` nanoseconds, asleep at its end or not.
    pub(crate) fn learn(&self, waited: u64, slept: bool) {
        let now = self.0.load(Ordering::Relaxed);
        let next = if !slept {
            now.saturating_mul(2).min(SPIN_MAX)
        } else if waited < u64::from(SPIN_MAX) {
            SPIN_MAX
        } else {
            (now / 2).max(SPIN_MIN)
        };
        if next != now {
            self.0.store(next, Ordering::Relaxed);
        }
    }
}
