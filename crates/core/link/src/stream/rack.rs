//! Which sendings count as lost: those that were sent long enough before one that has arrived (RACK, RFC 8985).
//!
//! How long is long enough adapts to the reordering that is seen: a quarter of the shortest round trip, more for each
//! sending that was taken for lost and arrived after all, never more than a mean round trip. As section 6.2 has it,
//! except that transmission numbers tell exactly which sending has arrived, so that no guess by time is needed where
//! the report names it.

use super::rtt::Rtt;

/// Items out of their turn from which on a path without any reordering is not given time for some (RFC 5681's
/// threshold).
const DUPLICATES: usize = 3;
/// Round trips with nothing taken for lost by mistake after which the window is small again.
const FORGIVEN: u32 = 16;
/// The widest window, in quarters of the shortest round trip; the mean round trip limits it too.
const WIDEST: u64 = 32;

/// The newest sending that has arrived, and how much reordering is expected.
#[derive(Debug)]
pub(super) struct Rack {
    /// One more than its transmission number; zero before any has arrived.
    newest: u64,
    /// The round trip that it took, in nanoseconds.
    rtt: u64,
    has_reordering: bool,
    /// Quarters of the shortest round trip.
    quarters: u64,
    /// The transmission that has to arrive before the window becomes wider again: once a round trip.
    widens_at: u64,
    /// The transmission that has to arrive before another recovery counts.
    recovers_at: u64,
    calm: u32,
}

impl Rack {
    pub(super) fn new() -> Rack {
        Rack {
            newest: 0,
            rtt: 0,
            has_reordering: false,
            quarters: 1,
            widens_at: 0,
            recovers_at: 0,
            calm: 0,
        }
    }

    /// A sending has arrived.
    pub(super) fn arrived(&mut self, transmission: u64, rtt: u64) {
        if transmission + 1 >= self.newest {
            self.newest = transmission + 1;
            self.rtt = rtt;
        }
    }

    /// A sending has arrived of which it is not known any more how long it took.
    pub(super) fn passed(&mut self, transmission: u64) {
        self.newest = self.newest.max(transmission + 1);
    }

    /// Whether a later sending has arrived than that one.
    pub(super) fn has_passed(&self, transmission: u64) -> bool {
        transmission + 1 < self.newest
    }

    /// Something arrived that was overtaken.
    pub(super) fn reordered(&mut self) {
        self.has_reordering = true;
    }

    /// Something arrived that had been taken for lost; `next` is the next transmission's number.
    pub(super) fn mistaken(&mut self, next: u64) {
        self.has_reordering = true;
        self.calm = 0;
        if self.newest >= self.widens_at {
            self.widens_at = next + 1;
            self.quarters = (self.quarters * 2).min(WIDEST);
        }
    }

    /// Items have been taken for lost; `next` is the next transmission's number.
    pub(super) fn recovers(&mut self, next: u64) {
        if self.newest < self.recovers_at {
            return;
        }
        self.recovers_at = next + 1;
        self.calm += 1;
        if self.calm >= FORGIVEN {
            (self.calm, self.quarters) = (0, 1);
        }
    }

    /// How long after its sending something is taken for lost, in nanoseconds, where so many items are out of their
    /// turn.
    pub(super) fn patience(&self, rtt: &Rtt, early: usize) -> u64 {
        if !self.has_reordering && early >= DUPLICATES {
            return self.rtt;
        }
        let window = self.quarters * rtt.shortest() / 4;
        self.rtt + window.min(rtt.mean().unwrap_or(0))
    }
}
