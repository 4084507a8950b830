//! Extremes of late: how fast at most, how short at least, how much at once.

use super::proportion;
use crate::Time;
use core::time::Duration;

/// The highest of this period and of the one before. A rate's periods are the cycles of probing (draft-ietf-ccwg-bbr, section 5.5.6).
#[derive(Debug, Default)]
pub(super) struct Highest([u64; 2]);

impl Highest {
    pub(super) fn value(&self) -> u64 {
        self.0[0].max(self.0[1])
    }

    pub(super) fn add(&mut self, value: u64) {
        self.0[1] = self.0[1].max(value);
    }

    /// Another period begins.
    pub(super) fn advance(&mut self) {
        self.0 = [self.0[1], 0];
    }

    /// Another one begins, unless this one has measured nothing.
    pub(super) fn advance_if_measured(&mut self) {
        if self.0[1] > 0 {
            self.advance();
        }
    }
}

/// How long a round trip counts as the shortest, and after how long without one as short it is looked for by
/// emptying the queue (section 2.8: `MinRTTFilterLen`, `ProbeRTTInterval`).
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

    /// `None` before the first.
    pub(super) fn value(&self) -> Option<u64> {
        (self.value < u64::MAX).then_some(self.value)
    }

    /// Time has passed, and perhaps a round trip been measured; whether it is time to look for a shorter one.
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

    /// It has been looked for.
    pub(super) fn was_sought(&mut self, now: Time) {
        self.sought_at = now;
    }
}

/// Rounds that an aggregate counts for, at most twice.
const AGGREGATE_ROUNDS: u64 = 5;

/// How many more bytes than the path's rate explains are acknowledged at once (section 5.5.9): delayed and combined
/// acknowledgements.
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
