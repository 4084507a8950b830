//! Why a connection stays on TCP for good, and that what became of it is counted once.

use super::{Conn, Phase, flag};
use core::sync::atomic::Ordering;
use sovia_control::Reason;

impl Conn {
    /// Stays on TCP for good, unless it has been given a VI meanwhile.
    pub(crate) fn stay_plain(&self) -> bool {
        // It may be about to be given one, under the lock.
        let _locked = self.lock();
        let (from, to) = (Phase::Candidate as u32, Phase::Plain as u32);
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Notes why it stays on TCP; the first reason is the one.
    pub(crate) fn stays(&self, reason: Reason) {
        let _ =
            self.stay.compare_exchange(0, reason as u32 + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// It has ended for that reason, whatever it stayed for before.
    pub(crate) fn ends_for(&self, reason: Reason) {
        self.stay.store(reason as u32 + 1, Ordering::Relaxed);
    }

    /// Why it stays on TCP, or has ended.
    pub(crate) fn stays_for(&self) -> Option<Reason> {
        self.stay.load(Ordering::Relaxed).checked_sub(1).and_then(Reason::of)
    }

    /// Counts its stay on TCP, once.
    pub(crate) fn count_stay(&self, reason: Reason) {
        self.stays(reason);
        if self.count_once() {
            crate::stats::reason(reason);
        }
    }

    /// Returns true the first time: what became of it is counted from here on.
    pub(crate) fn count_once(&self) -> bool {
        let first = self.set(flag::COUNTED) & flag::COUNTED == 0;
        if first {
            crate::stats::decided();
        }
        first
    }
}
