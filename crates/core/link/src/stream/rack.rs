//! Decides which transmissions are lost: those sent long enough before a transmission that has arrived (RACK, RFC
//! 8985).
//!
//! The reordering window adapts to observed reordering. The window begins with a quarter of the shortest round trip.
//! The window doubles when a transmission that was declared lost arrives after all, and never exceeds the mean round
//! trip. The rules are those of section 6.2 with one difference: transmission numbers tell exactly which transmission
//! has arrived. So no guess by time is needed where the report names the transmission.

use super::rtt::Rtt;

/// Number of items out of order from which the window is zero, on a path without observed reordering (RFC 5681's
/// threshold).
const DUPLICATES: usize = 3;
/// Number of recoveries without a wrongly declared loss after which the window is reset.
const FORGIVEN: u32 = 16;
/// The widest window, in quarters of the shortest round trip. The mean round trip also limits the window.
const WIDEST: u64 = 32;

/// The newest transmission that has arrived, and the expected amount of reordering.
#[derive(Debug)]
pub(super) struct Rack {
    /// Transmission number of the newest plus one; zero before any transmission has arrived.
    newest: u64,
    /// Round trip of the newest transmission, in nanoseconds.
    rtt: u64,
    has_reordering: bool,
    /// Width of the window, in quarters of the shortest round trip.
    quarters: u64,
    /// Transmission that must arrive before the window may widen again, so that the window widens at most once a round
    /// trip.
    widens_at: u64,
    /// Transmission that must arrive before another recovery counts.
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

    /// Notes that a transmission has arrived, `rtt` nanoseconds after it was sent.
    pub(super) fn arrived(&mut self, transmission: u64, rtt: u64) {
        if transmission + 1 >= self.newest {
            self.newest = transmission + 1;
            self.rtt = rtt;
        }
    }

    /// Notes that a transmission has arrived whose round trip is no longer known.
    pub(super) fn passed(&mut self, transmission: u64) {
        self.newest = self.newest.max(transmission + 1);
    }

    /// Returns true if a later transmission than `transmission` has arrived.
    pub(super) fn has_passed(&self, transmission: u64) -> bool {
        transmission + 1 < self.newest
    }

    /// Notes that an item arrived after an item sent later.
    pub(super) fn reordered(&mut self) {
        self.has_reordering = true;
    }

    /// Notes that an item declared lost has arrived. `next` is the next transmission's number.
    pub(super) fn mistaken(&mut self, next: u64) {
        self.has_reordering = true;
        self.calm = 0;
        if self.newest >= self.widens_at {
            self.widens_at = next + 1;
            self.quarters = (self.quarters * 2).min(WIDEST);
        }
    }

    /// Notes that items have been declared lost. `next` is the next transmission's number.
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

    /// Returns how many nanoseconds after its sending a transmission is declared lost, with `early` items out of order.
    pub(super) fn patience(&self, rtt: &Rtt, early: usize) -> u64 {
        if !self.has_reordering && early >= DUPLICATES {
            return self.rtt;
        }
        let window = self.quarters * rtt.shortest() / 4;
        self.rtt + window.min(rtt.mean().unwrap_or(0))
    }
}
