//! Filters for recent extremes: the highest rate, the shortest round trip, the largest aggregate.

use super::proportion;
use crate::Time;
use core::time::Duration;

/// Highest value of this period and of the previous one. A rate's periods are the cycles of probing
/// (draft-ietf-ccwg-bbr, section 5.5.6).
#[derive(Debug, Default)]
pub(super) struct Highest([u64; 2]);

impl Highest {
    pub(super) fn value(&self) -> u64 {
        self.0[0].max(self.0[1])
    }

    pub(super) fn add(&mut self, value: u64) {
        self.0[1] = self.0[1].max(value);
    }

    /// Begins another period.
    pub(super) fn advance(&mut self) {
        self.0 = [self.0[1], 0];
    }

    /// Begins another period, unless this period has no measurement.
    pub(super) fn advance_if_measured(&mut self) {
        if self.0[1] > 0 {
            self.advance();
        }
    }
}

/// `COUNTS_FOR`: how long a round trip counts as the shortest. `SOUGHT_AFTER`: after this time without one as short,
/// the sender empties the queue to measure again (section 2.8: `MinRTTFilterLen`, `ProbeRTTInterval`).
const COUNTS_FOR: Duration = Duration::from_secs(10);
const SOUGHT_AFTER: Duration = Duration::from_secs(5);

/// The shortest round trip, in nanoseconds (section 5.3.4.3).
#[derive(Debug)]
pub(super) struct Shortest {
    value: u64,
    at: Time,
    sought: u64,
    sought_at: Time,
}

impl Shortest {
    pub(super) fn new() -> Shortest {
        let (value, sought) = (u64::MAX, u64::MAX);
        Shortest { value, at: Time::ZERO, sought, sought_at: Time::ZERO }
    }

    /// Returns the shortest round trip; `None` before the first measurement.
    pub(super) fn value(&self) -> Option<u64> {
        (self.value < u64::MAX).then_some(self.value)
    }

    /// Adds a measurement, if there is one. Returns true if it is time to seek a shorter round trip.
    pub(super) fn add(&mut self, rtt: Option<u64>, now: Time) -> bool {
        let is_due = self.sought < u64::MAX && now.since(self.sought_at) > SOUGHT_AFTER;
        if let Some(rtt) = rtt
            && (rtt < self.sought || is_due)
        {
            (self.sought, self.sought_at) = (rtt, now);
        }
        if self.sought < self.value || now.since(self.at) > COUNTS_FOR {
            (self.value, self.at) = (self.sought, self.sought_at);
        }
        is_due
    }

    /// Records that the sender has sought the shortest round trip.
    pub(super) fn was_sought(&mut self, now: Time) {
        self.sought_at = now;
    }
}

/// Number of rounds in one period of the aggregate filter. An aggregate counts for at most two periods.
const AGGREGATE_ROUNDS: u64 = 5;

/// Number of bytes that acknowledgements deliver at once beyond what the path's rate explains (section 5.5.9). Delayed
/// and combined acknowledgements cause this excess.
#[derive(Debug, Default)]
pub(super) struct Aggregate {
    since: Time,
    bytes: u64,
    most: Highest,
    round: u64,
}

impl Aggregate {
    pub(super) fn most(&self) -> u64 {
        self.most.value()
    }

    pub(super) fn add(&mut self, acked: u64, rate: u64, (round, now): (u64, Time), limit: u64) {
        let nanos = now.nanos().saturating_sub(self.since.nanos());
        let expected = proportion(rate, nanos, 1_000_000_000);
        if self.bytes <= expected {
            (self.bytes, self.since) = (0, now);
        }
        let expected = if self.bytes == 0 { 0 } else { expected };
        self.bytes += acked;
        if round >= self.round + AGGREGATE_ROUNDS {
            self.round = round;
            self.most.advance();
        }
        self.most.add((self.bytes - expected).min(limit));
    }
}
