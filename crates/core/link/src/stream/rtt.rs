//! How long a round trip takes, and how long to wait for an acknowledgement.

use crate::Time;
use core::time::Duration;

/// The limits of retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The first wait, and the shortest.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
    /// Retransmissions in a row, without any progress, before the far side is given up; `None`: it never is.
    pub tries: Option<u32>,
}

impl Timing {
    /// How long to wait before something is said for the `tries`-th time again, where no round trip has been
    /// measured.
    pub fn pause(&self, tries: u32) -> Duration {
        self.backed_off(self.first, tries)
    }

    /// Twice as long for each try, up to the longest.
    fn backed_off(&self, first: Duration, tries: u32) -> Duration {
        first.saturating_mul(1 << tries.min(16)).min(self.longest.max(self.first))
    }
}

/// How long the shortest round trip counts, though none was as short since.
const SHORTEST_FOR: Duration = Duration::from_secs(10);

/// The round trip as measured: its mean, how much it varies, and its minimum. All in nanoseconds.
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
    /// Not yet measured.
    pub fn new() -> Rtt {
        Rtt { mean: None, variation: 0, shortest: u64::MAX, shortest_at: Time::ZERO }
    }

    /// Another round trip (RFC 6298, section 2).
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

    /// The mean, in nanoseconds; `None` before it has been measured.
    pub fn mean(&self) -> Option<u64> {
        self.mean
    }

    /// The shortest of late; zero if there is none.
    pub(super) fn shortest(&self) -> u64 {
        if self.mean.is_some() { self.shortest } else { 0 }
    }

    /// How long to wait after `tries` retransmissions without an answer.
    pub fn wait(&self, timing: &Timing, tries: u32) -> Duration {
        let measured = self.mean.map_or(0, |mean| mean + self.variation * 4);
        timing.backed_off(Duration::from_nanos(measured).max(timing.first), tries)
    }

    /// How long to wait until the end of a flight is probed (RFC 8985, section 7.2): `None` if no round trip has been
    /// measured; in nanoseconds. The floor keeps a path of microseconds from being probed for every pause of its port.
    pub(super) fn probe_wait(&self, timing: &Timing) -> Option<u64> {
        let mean = self.mean?;
        let wait = (2 * mean).max(mean + self.variation * 4);
        Some(wait.max(timing.first.as_nanos() as u64 / 4))
    }
}
