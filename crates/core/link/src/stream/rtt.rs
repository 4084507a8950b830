//! Measures the round trip, and computes how long to wait for an acknowledgement.

use crate::Time;
use core::time::Duration;

/// Limits of retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The first wait, which is also the shortest.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// Number of retransmissions in a row without progress before the peer counts as dead; `None`: never.
    pub tries: Option<u32>,
}

impl Timing {
    /// Returns the wait before the `tries`-th repetition, if no round trip has been measured.
    pub fn pause(&self, tries: u32) -> Duration {
        self.backed_off(self.first, tries)
    }

    /// Doubles the wait for each try, up to the longest wait.
    fn backed_off(&self, first: Duration, tries: u32) -> Duration {
        first.saturating_mul(1 << tries.min(16)).min(self.longest.max(self.first))
    }
}

/// Time after which a longer round trip may replace the shortest one.
const SHORTEST_FOR: Duration = Duration::from_secs(10);

/// The measured round trip: its mean, its variation and its minimum, all in nanoseconds.
#[derive(Debug)]
pub struct Rtt {
    mean: Option<u64>,
    variation: u64,
    shortest: u64,
    shortest_at: Time,
}

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt::new()
    }
}

impl Rtt {
    /// Creates a state without measurements.
    pub fn new() -> Rtt {
        Rtt { mean: None, variation: 0, shortest: u64::MAX, shortest_at: Time::ZERO }
    }

    /// Adds a measured round trip (RFC 6298, section 2).
    pub fn measured(&mut self, sample: u64, now: Time) {
        if sample <= self.shortest || now.since(self.shortest_at) > SHORTEST_FOR {
            (self.shortest, self.shortest_at) = (sample, now);
        }
        match self.mean {
            None => {
                self.mean = Some(sample);
                self.variation = sample / 2;
            }
            Some(mean) => {
                self.variation = (self.variation * 3 + mean.abs_diff(sample)) / 4;
                self.mean = Some((mean * 7 + sample) / 8);
            }
        }
    }

    /// Returns the mean in nanoseconds; `None` before the first measurement.
    pub fn mean(&self) -> Option<u64> {
        self.mean
    }

    /// Returns the recent minimum in nanoseconds; zero before the first measurement.
    pub(super) fn shortest(&self) -> u64 {
        if self.mean.is_some() { self.shortest } else { 0 }
    }

    /// Returns how long to wait after `tries` retransmissions without an answer.
    pub fn wait(&self, timing: &Timing, tries: u32) -> Duration {
        let measured = self.mean.map_or(0, |mean| mean + self.variation * 4);
        timing.backed_off(Duration::from_nanos(measured).max(timing.first), tries)
    }

    /// Returns the nanoseconds to wait before the end of a flight is probed (RFC 8985, section 7.2); `None` if no round
    /// trip has been measured. The lower limit prevents a probe for every pause of the port, on paths of microseconds.
    pub(super) fn probe_wait(&self, timing: &Timing) -> Option<u64> {
        let mean = self.mean?;
        let wait = (2 * mean).max(mean + self.variation * 4);
        Some(wait.max(timing.first.as_nanos() as u64 / 4))
    }
}
