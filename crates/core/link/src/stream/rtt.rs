//! How long to wait for an acknowledgement.

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

/// The round trip as measured: its mean, and how much it varies.
#[derive(Debug)]
pub(super) struct Rtt {
    mean: Option<Duration>,
    variation: Duration,
}

impl Rtt {
    pub(super) fn new() -> Rtt {
        Rtt { mean: None, variation: Duration::ZERO }
    }

    /// Another round trip. Of items that were sent once only: with others one cannot know which
    /// sending was answered.
    pub(super) fn measured(&mut self, sample: Duration) {
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

    /// How long to wait after `tries` retransmissions without an answer.
    pub(super) fn wait(&self, timing: &Timing, tries: u32) -> Duration {
        let measured = self.mean.map_or(Duration::ZERO, |mean| mean + self.variation * 4);
        timing.backed_off(measured.max(timing.first), tries)
    }
}
