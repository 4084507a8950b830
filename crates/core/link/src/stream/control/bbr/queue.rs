//! Whether a queue stands at the bottleneck, as round trips tell.

use super::Highest;
use crate::Time;
use core::time::Duration;

/// How long an extreme counts, at most twice.
const COUNTS_FOR: Duration = Duration::from_secs(10);
/// A round trip that is longer than the shortest by no more than one in so many shows no queue.
const PART: u64 = 8;
/// A queue stands between probes where it makes each round trip longer by one in so many.
const STANDING_PART: u64 = 2;
/// Differences that a busy processor makes.
const NOISE_NANOS: u64 = 50_000;

/// The shortest round trip of each round, and of late the longest of these; in nanoseconds.
#[derive(Debug)]
pub(super) struct Queue {
    since: Time,
    longest: Highest,
    /// The shortest of this round and of the last one.
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

    /// A round trip is over.
    pub(super) fn round_passed(&mut self) {
        if self.round < u64::MAX {
            self.last = core::mem::replace(&mut self.round, u64::MAX);
            self.longest.add(self.last);
        }
    }

    /// There was one in the last round, beside that shortest round trip.
    pub(super) fn stood(&self, shortest: u64) -> bool {
        self.last < u64::MAX && self.last > least(shortest)
    }

    /// One stood in the last round that makes each round trip much longer.
    pub(super) fn stands(&self, shortest: u64) -> bool {
        self.last < u64::MAX && self.last > shortest.saturating_add(shortest / STANDING_PART)
    }

    /// There is one now, nearly as long as the longest of late.
    pub(super) fn is_long(&self, shortest: u64) -> bool {
        let newest = if self.round < u64::MAX { self.round } else { self.last };
        if newest == u64::MAX || newest <= least(shortest) {
            return false;
        }
        let longest = self.longest.value().max(newest);
        newest - shortest >= (longest - shortest) / 4 * 3
    }
}

/// The longest round trip that shows no queue.
fn least(shortest: u64) -> u64 {
    shortest.saturating_add((shortest / PART).max(NOISE_NANOS))
}
