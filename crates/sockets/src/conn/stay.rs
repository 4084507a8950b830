//! Stores why a connection stays on TCP for good, and counts each connection once in the statistics.

use super::{Conn, Phase, flag};
use core::sync::atomic::Ordering;
use sovia_control::Reason;

impl Conn {
    /// Makes the connection stay on TCP for good, unless it already has a VI. Returns true if the connection stays
    /// on TCP.
    pub(crate) fn stay_plain(&self) -> bool {
        // Takes the lock, because another thread may be giving the connection a VI at this moment.
        let _locked = self.lock();
        let (from, to) = (Phase::Eligible as u32, Phase::Plain as u32);
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Stores the reason why the connection stays on TCP, unless an earlier reason is stored.
    pub(crate) fn stays(&self, reason: Reason) {
        let _ =
            self.stay.compare_exchange(0, reason as u32 + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Stores the reason why the connection has ended. Replaces an earlier reason.
    pub(crate) fn ends_for(&self, reason: Reason) {
        self.stay.store(reason as u32 + 1, Ordering::Relaxed);
    }

    /// Returns the stored reason why the connection stays on TCP or has ended, if there is one.
    pub(crate) fn stays_for(&self) -> Option<Reason> {
        self.stay.load(Ordering::Relaxed).checked_sub(1).and_then(Reason::of)
    }

    /// Counts in the statistics that the connection stays on TCP for `reason`, unless the connection has already
    /// been counted.
    pub(crate) fn count_stay(&self, reason: Reason) {
        self.stays(reason);
        if self.count_once() {
            crate::stats::reason(reason);
        }
    }

    /// Returns true only at the first call for a connection. The caller must then count whether the connection got
    /// a VI.
    pub(crate) fn count_once(&self) -> bool {
        let first = self.set(flag::COUNTED) & flag::COUNTED == 0;
        if first {
            crate::stats::decided();
        }
        first
    }
}
