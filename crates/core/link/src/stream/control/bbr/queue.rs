//! Detects a standing queue at the bottleneck from round trips.

use super::Highest;
use crate::Time;
use core::time::Duration;

/// Length of one period of the filter. An extreme counts for at most two periods.
const COUNTS_FOR: Duration = Duration::from_secs(10);
/// A round trip up to 1/8 longer than the shortest shows no queue.
const PART: u64 = 8;
/// A queue that makes each round trip longer by 1/2 counts as standing between probes.
const STANDING_PART: u64 = 2;
/// Differences in round trips that a busy processor causes.
const NOISE_NANOS: u64 = 50_000;

/// Shortest round trip of each round, and the longest of these in recent time, in nanoseconds.
#[derive(Debug)]
pub(super) struct Queue {
    since: Time,
    longest: Highest,
    /// Shortest round trip of this round, and of the previous round.
    round: u64,
    last: u64,
}

impl Queue {
    pub(super) fn new() -> Queue {
        let longest = Highest::default();
        Queue { since: Time::ZERO, longest, round: u64::MAX, last: u64::MAX }
    }

    pub(super) fn measured(&mut self, rtt: u64, now: Time) {
        if now.since(self.since) > COUNTS_FOR {
            self.since = now;
            self.longest.advance();
        }
        self.round = self.round.min(rtt);
    }

    /// Notes that a round is over.
    pub(super) fn round_passed(&mut self) {
        if self.round < u64::MAX {
            self.last = core::mem::replace(&mut self.round, u64::MAX);
            self.longest.add(self.last);
        }
    }

    /// Returns true if the previous round showed any queue. `shortest` is the shortest round trip.
    pub(super) fn stood(&self, shortest: u64) -> bool {
        self.last < u64::MAX && self.last > least(shortest)
    }

    /// Returns true if the previous round showed a queue that makes each round trip much longer.
    pub(super) fn stands(&self, shortest: u64) -> bool {
        self.last < u64::MAX && self.last > shortest.saturating_add(shortest / STANDING_PART)
    }

    /// Returns true if there is a queue now that is nearly as long as the longest recent queue.
    pub(super) fn is_long(&self, shortest: u64) -> bool {
        let newest = if self.round < u64::MAX { self.round } else { self.last };
        if newest == u64::MAX || newest <= least(shortest) {
            return false;
        }
        let longest = self.longest.value().max(newest);
        newest - shortest >= (longest - shortest) / 4 * 3
    }
}

/// Returns the longest round trip that shows no queue.
fn least(shortest: u64) -> u64 {
    shortest.saturating_add((shortest / PART).max(NOISE_NANOS))
}
